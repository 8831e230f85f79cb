#include "pjrt/emitter.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/half.h"
#include "pjrt/mlir_text.h"

namespace deepinfer::pjrt {
namespace {

std::string Names(const Vals& values) {
  std::string out;
  for (const Val& value : values) out += (out.empty() ? "" : ", ") + value.name;
  return out;
}

std::string Types(const Vals& values) {
  std::string out;
  for (const Val& value : values) out += (out.empty() ? "" : ", ") + MlirType(value.type);
  return out;
}

template <class T>
ir::Bytes BytesOf(T value) {
  ir::Bytes bytes(sizeof(value));
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

ir::Bytes IntegerBytes(DType dtype, int64_t value) {
  switch (SizeOf(dtype)) {
    case 1:
      return BytesOf(static_cast<int8_t>(value));
    case 4:
      return BytesOf(static_cast<int32_t>(value));
    default:
      return BytesOf(value);
  }
}

ir::Bytes FloatBytes(DType dtype, double value) {
  const auto narrow = static_cast<float>(value);
  switch (dtype) {
    case DType::kF8E4M3:
      return BytesOf(F32ToF8E4M3(narrow));
    case DType::kF16:
      return BytesOf(F32ToF16(narrow));
    case DType::kBF16:
      return BytesOf(F32ToBF16(narrow));
    default:
      return BytesOf(narrow);
  }
}

const char* CompareType(DType dtype) {
  if (IsFloat(dtype)) return "FLOAT";
  return dtype == DType::kI1 || dtype == DType::kU8 || dtype == DType::kU32 ? "UNSIGNED" : "SIGNED";
}

int64_t LowestOf(DType dtype) {
  switch (dtype) {
    case DType::kI8:
      return std::numeric_limits<int8_t>::min();
    case DType::kI32:
      return std::numeric_limits<int32_t>::min();
    case DType::kI64:
      return std::numeric_limits<int64_t>::min();
    default:
      return 0;
  }
}

int64_t HighestOf(DType dtype) {
  switch (dtype) {
    case DType::kI8:
      return std::numeric_limits<int8_t>::max();
    case DType::kU8:
      return std::numeric_limits<uint8_t>::max();
    case DType::kI32:
      return std::numeric_limits<int32_t>::max();
    case DType::kU32:
      return std::numeric_limits<uint32_t>::max();
    default:
      return std::numeric_limits<int64_t>::max();
  }
}

int DigitsOf(DType dtype) {
  const int bits = 8 * static_cast<int>(SizeOf(dtype));
  return LowestOf(dtype) < 0 ? bits - 1 : bits;
}

}  // namespace

Vals Emitter::EmitAll(const std::string& op, const Vals& operands, const std::vector<ir::Type>& results,
                      const std::string& attrs, const std::vector<std::string>& regions) {
  Vals values;
  const std::string name = results.empty() ? "" : NewName();
  std::string result_types;
  for (size_t i = 0; i < results.size(); ++i) {
    values.push_back({results.size() == 1 ? name : fmt::format("{}#{}", name, i), results[i]});
    result_types += (i > 0 ? ", " : "") + MlirType(results[i]);
  }
  std::string head = indent_;
  if (results.size() == 1) head += name + " = ";
  if (results.size() > 1) head += fmt::format("{}:{} = ", name, results.size());
  out_ += fmt::format("{}\"{}\"({})", head, op, Names(operands));
  if (!attrs.empty()) out_ += " <{" + attrs + "}>";
  if (!regions.empty()) {
    out_ += " (";
    for (size_t i = 0; i < regions.size(); ++i) out_ += (i > 0 ? ", " : "") + regions[i];
    out_ += ")";
  }
  const bool bare = results.size() == 1;
  out_ += fmt::format(" : ({}) -> {}{}{}\n", Types(operands), bare ? "" : "(", result_types, bare ? "" : ")");
  return values;
}

std::string Emitter::Region(const std::vector<ir::Type>& arguments, const std::function<Vals(const Vals&)>& body) {
  std::string outer = std::exchange(out_, "");
  const std::string outer_indent = indent_;
  indent_ += "  ";
  Vals values;
  std::string header;
  for (const ir::Type& type : arguments) {
    values.push_back({NewName(), type});
    header += fmt::format("{}{}: {}", header.empty() ? "" : ", ", values.back().name, MlirType(type));
  }
  Return("stablehlo.return", body(values));
  std::string region = "{\n";
  if (!arguments.empty()) region += fmt::format("{}^bb0({}):\n", outer_indent, header);
  region += out_ + outer_indent + "}";
  indent_ = outer_indent;
  out_ = std::move(outer);
  return region;
}

std::string Emitter::BinaryRegion(DType dtype, const char* op) {
  const ir::Type scalar(dtype, {});
  return Region({scalar, scalar}, [&](const Vals& v) { return Vals{Same(op, v)}; });
}

void Emitter::Return(const char* op, const Vals& values) {
  EmitAll(op, values, {});
}

Val Emitter::Constant(const ir::Type& type, const ir::Bytes& bytes) {
  return Emit("stablehlo.constant", {}, type, "value = " + MlirDense(type, bytes));
}

Val Emitter::Splat(const ir::Type& type, double value) {
  if (!IsFloat(type.dtype)) return SplatInt(type, static_cast<int64_t>(value));
  return Constant(type, FloatBytes(type.dtype, value));
}

Val Emitter::SplatInt(const ir::Type& type, int64_t value) {
  return Constant(type, IntegerBytes(type.dtype, value));
}

Val Emitter::Broadcast(const Val& scalar, const ir::Type& type) {
  return Emit("stablehlo.broadcast_in_dim", {scalar}, type, "broadcast_dimensions = array<i64>");
}

Val Emitter::Iota(const ir::Type& type, int64_t dim) {
  return Emit("stablehlo.iota", {}, type, fmt::format("iota_dimension = {} : i64", dim));
}

Val Emitter::Reshape(const Val& x, std::vector<ir::Dim> dims) {
  return Emit("stablehlo.reshape", {x}, ir::Type(x.type.dtype, std::move(dims)));
}

Val Emitter::Select(const Val& condition, const Val& yes, const Val& no) {
  return Emit("stablehlo.select", {condition, yes, no}, yes.type);
}

Val Emitter::Compare(const Val& a, const Val& b, const std::string& direction) {
  if (a.type.dtype == DType::kF8E4M3) return Compare(Widen(a), Widen(b), direction);
  std::string upper;
  for (const char c : direction) upper += static_cast<char>(c - 'a' + 'A');
  return Emit("stablehlo.compare", {a, b}, a.type.WithDType(DType::kI1),
              fmt::format("comparison_direction = #stablehlo<comparison_direction {}>, compare_type = "
                          "#stablehlo<comparison_type {}>",
                          upper, CompareType(a.type.dtype)));
}

Val Emitter::FloatToInteger(const Val& x, DType to) {
  const Val wide = Widen(x);
  const ir::Type type = x.type.WithDType(to);
  Val result = Emit("stablehlo.convert", {wide}, type);
  // 2^digits is exact in f32, the largest integer itself may not be.
  const Val high = Compare(wide, Splat(wide.type, std::ldexp(1.0, DigitsOf(to))), "ge");
  result = Select(high, SplatInt(type, HighestOf(to)), result);
  const Val low = Compare(wide, Splat(wide.type, static_cast<double>(LowestOf(to))), "le");
  result = Select(low, SplatInt(type, LowestOf(to)), result);
  return Select(Compare(wide, wide, "ne"), SplatInt(type, 0), result);
}

Val Emitter::Convert(const Val& x, DType to) {
  const DType from = x.type.dtype;
  if (from == to) return x;
  if (to == DType::kI1) return Compare(x, Splat(x.type, 0), "ne");
  if (IsFloat(from) && !IsFloat(to)) return FloatToInteger(x, to);
  const ir::Type type = x.type.WithDType(to);
  if (to != DType::kF8E4M3) return Emit("stablehlo.convert", {x}, type);
  const Val wide = Convert(x, DType::kF32);
  const ir::Type scalar(DType::kF32, {});
  const Val clamped = Emit("stablehlo.clamp", {Splat(scalar, -448), wide, Splat(scalar, 448)}, wide.type);
  return Emit("stablehlo.convert", {clamped}, type);
}

Val Emitter::LiveCount(ir::DimTag tag) {
  const auto index = static_cast<int64_t>(tag) - 1;
  Val& count = live_[index];
  if (count.name.empty()) {
    const Val one = Emit("stablehlo.slice", {live_counts_}, ir::Type(DType::kI32, {1}),
                         fmt::format("start_indices = {}, limit_indices = {}, strides = {}", I64Array({index}),
                                     I64Array({index + 1}), I64Array({1})));
    count = Reshape(one, {});
  }
  return count;
}

Val Emitter::LiveMask(const ir::Type& like, int64_t dim) {
  const Val count = LiveCount(like.dims[dim].tag);
  const ir::Type type = like.WithDType(DType::kI32);
  return Compare(Iota(type, dim), Broadcast(count, type), "lt");
}

}  // namespace deepinfer::pjrt
