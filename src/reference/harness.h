// For tests: records a graph, runs it on the reference backend with poisoned padding, and gives access to its buffers.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "ir/builder.h"
#include "ir/composites/decompose.h"
#include "reference/reference.h"

namespace deepinfer::reference {

class Harness {
 public:
  Harness() : b(module_.Entry()) {}

  template <class T>
  ir::Value In(const std::string& name, std::vector<ir::Dim> dims, const std::vector<T>& values) {
    constexpr DType kType = std::is_same_v<T, float> ? DType::kF32 : DType::kI32;
    const ir::Type type(kType, std::move(dims));
    EXPECT_EQ(type.NumElements(), static_cast<int64_t>(values.size())) << name;
    metadata_.push_back({name, Keep(values.data(), type.Bytes()), type.Bytes()});
    return b.Input(name, ir::InputKind::kMetadata, type);
  }

  // Live counts: tokens, rows, requests.
  void Live(const std::vector<int32_t>& counts) { module_.SetLiveCounts(In<int32_t>("live_counts", {3}, counts)); }

  std::vector<ir::Value> Decomposed(ir::Op op, const std::vector<ir::Value>& operands, ir::AttrMap attrs = {}) {
    ir::Node node;
    node.op = op;
    node.attrs = std::move(attrs);
    return ir::Decompose(b, node, operands);
  }

  void Out(const std::string& name, ir::Value value) {
    const ir::Type type = b.TypeOf(value);
    std::vector<std::byte> zeros(static_cast<size_t>(type.Bytes()));
    outputs_.push_back({name, Keep(zeros.data(), type.Bytes()), type.Bytes()});
    b.Output(name, value);
  }

  Status Run(int threads = 2) {
    DI_ASSIGN_OR_RETURN(const ir::Module module, module_.Finish());
    const auto backend = CreateReferenceBackend({.threads = threads, .poison_padding = true});
    DI_RETURN_IF_ERROR(backend->SetWeights({}, ""));
    DI_ASSIGN_OR_RETURN(const auto executable, backend->Compile(module, {}));
    DI_RETURN_IF_ERROR(backend->Finalize());
    const backend::StepIo io{metadata_, outputs_, nullptr};
    DI_RETURN_IF_ERROR(executable->Capture(io));
    return executable->Run(io);
  }

  template <class T>
  std::vector<T> Get(const std::string& name) const {
    for (const auto* slots : {&outputs_, &metadata_}) {
      for (const backend::HostSlot& slot : *slots) {
        if (slot.name != name) continue;
        std::vector<T> values(static_cast<size_t>(slot.bytes) / sizeof(T));
        std::memcpy(values.data(), slot.data, static_cast<size_t>(slot.bytes));
        return values;
      }
    }
    ADD_FAILURE() << "no " << name;
    return {};
  }

 private:
  void* Keep(const void* data, int64_t bytes) {
    const auto* begin = static_cast<const std::byte*>(data);
    return memory_.emplace_back(begin, begin + bytes).data();
  }

  ir::ModuleBuilder module_;
  std::deque<std::vector<std::byte>> memory_;
  std::vector<backend::HostSlot> metadata_;
  std::vector<backend::HostSlot> outputs_;

 public:
  ir::Builder b;
};

}  // namespace deepinfer::reference
