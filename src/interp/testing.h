// Helpers of the interpreter's tests: a value with its type, one-node functions, and reading any dtype as double.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "interp/interp.h"
#include "interp/storage.h"
#include "ir/builder.h"

namespace deepinfer::interp {

struct Tensor {
  ir::Type type;
  std::vector<std::byte> data;

  explicit Tensor(ir::Type t) : type(std::move(t)), data(static_cast<size_t>(type.Bytes())) {}
  double At(int64_t i) const {
    return DispatchAny(type.dtype, [&](auto tag) {
      using S = Storage<decltype(tag)::value>;
      typename S::T raw;
      std::memcpy(&raw, data.data() + i * static_cast<int64_t>(sizeof(raw)), sizeof(raw));
      return static_cast<double>(S::Load(raw));
    });
  }
  // Rounded to the dtype; integers truncate.
  void Set(int64_t i, double value) {
    DispatchAny(type.dtype, [&](auto tag) {
      using S = Storage<decltype(tag)::value>;
      const typename S::T raw = S::Store(static_cast<typename S::C>(value));
      std::memcpy(data.data() + i * static_cast<int64_t>(sizeof(raw)), &raw, sizeof(raw));
    });
  }
  int64_t size() const { return type.NumElements(); }
};

inline ir::LiveCounts AllLive() {
  ir::LiveCounts live;
  live.count.fill(std::numeric_limits<int64_t>::max());
  return live;
}

inline ir::LiveCounts LiveTokens(int64_t tokens) {
  ir::LiveCounts live = AllLive();
  live.count[0] = tokens;
  return live;
}

inline Tensor Make(DType dtype, std::vector<ir::Dim> dims, const std::vector<double>& values) {
  Tensor tensor(ir::Type(dtype, std::move(dims)));
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.Set(i, values[static_cast<size_t>(i)]);
  return tensor;
}

inline Tensor Random(DType dtype, std::vector<ir::Dim> dims, uint32_t seed, double low = -3, double high = 3) {
  Tensor tensor(ir::Type(dtype, std::move(dims)));
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    double value = uniform(random);
    if (dtype == DType::kI1) value = value > 0 ? 1 : 0;
    if ((dtype == DType::kU8 || dtype == DType::kU32) && value < 0) value = -value;
    tensor.Set(i, value);
  }
  return tensor;
}

// Runs one node on the operands; results start as bytes of `fill`.
inline Result<std::vector<Tensor>> RunNode(ir::Op op, const std::vector<Tensor>& operands,
                                           const ir::AttrMap& attrs = {}, const std::vector<ir::Type>& declared = {},
                                           const ir::LiveCounts& live = AllLive(), ThreadTeam* team = nullptr,
                                           int fill = 0) {
  ir::ModuleBuilder module;
  ir::Builder b = module.Entry("test");
  std::vector<ir::Value> values;
  for (size_t i = 0; i < operands.size(); ++i) {
    // Only states may be overwritten.
    const ir::InputKind kind = op == ir::Op::kIndexPut ? ir::InputKind::kState : ir::InputKind::kArgument;
    values.push_back(b.Input("x" + std::to_string(i), kind, operands[i].type));
  }
  b.EmitAll(op, values, attrs, declared);
  DI_ASSIGN_OR_RETURN(const ir::Module built, module.Finish());
  const ir::Function& f = built.entry();
  auto workspace = std::make_shared<Workspace>(team == nullptr ? 1 : team->members());
  DI_ASSIGN_OR_RETURN(auto node, PrepareNode(f, f.nodes[0], workspace));
  std::vector<const void*> in;
  for (const Tensor& operand : operands) in.push_back(operand.data.data());
  std::vector<Tensor> results;
  for (const ir::ValueId value : f.nodes[0].results) {
    results.emplace_back(f.TypeOf(value));
    std::fill(results.back().data.begin(), results.back().data.end(), static_cast<std::byte>(fill));
  }
  std::vector<void*> out;
  for (Tensor& result : results) out.push_back(result.data.data());
  node->Run(in.data(), out.data(), live, team);
  return results;
}

inline Tensor RunOne(ir::Op op, const std::vector<Tensor>& operands, const ir::AttrMap& attrs = {},
                     const std::vector<ir::Type>& declared = {}, const ir::LiveCounts& live = AllLive(),
                     ThreadTeam* team = nullptr, int fill = 0) {
  auto results = RunNode(op, operands, attrs, declared, live, team, fill);
  EXPECT_TRUE(results.has_value()) << (results ? "" : results.error().ToString());
  return results && !results->empty() ? (*results)[0] : Tensor(ir::Type());
}

// The step between neighbours of the dtype at `value`, as a tolerance for one rounding.
inline double Ulp(DType dtype, double value) {
  const double magnitude = std::max(std::fabs(value), 1e-30);
  switch (dtype) {
    case DType::kF8E4M3:
      return std::max(magnitude / 8, 1.0 / 512);
    case DType::kF16:
      return std::max(magnitude / 1024, 6e-8);
    case DType::kBF16:
      return magnitude / 128;
    case DType::kF32:
      return magnitude / (1 << 23);
    default:
      return 0;
  }
}

inline const DType kFloats[] = {DType::kF8E4M3, DType::kF16, DType::kBF16, DType::kF32};
inline const DType kIntegers[] = {DType::kI8, DType::kU8, DType::kI32, DType::kU32, DType::kI64};
inline const DType kAll[] = {DType::kI1,  DType::kI8,     DType::kU8,  DType::kI32,  DType::kU32,
                             DType::kI64, DType::kF8E4M3, DType::kF16, DType::kBF16, DType::kF32};

}  // namespace deepinfer::interp
