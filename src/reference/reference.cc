#include "reference/reference.h"

#include <cstdlib>
#include <map>

#include "reference/executable.h"

namespace deepinfer::reference {
namespace {

class HostStates final : public backend::StateSet {
 public:
  // Zero pages: a large KV cache costs memory only where it is used.
  Status Add(const std::string& buffer, int64_t bytes) {
    void* memory = bytes < 0 ? nullptr : std::calloc(static_cast<size_t>(bytes) + 1, 1);
    if (memory == nullptr) {
      return MakeError(ErrorCode::kResourceExhausted, "state buffer '" + buffer + "'", "no memory for {} bytes", bytes);
    }
    buffers_[buffer].reset(memory);
    return {};
  }
  void* Address(const std::string& buffer) const override {
    const auto it = buffers_.find(buffer);
    return it == buffers_.end() ? nullptr : it->second.get();
  }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::map<std::string, std::unique_ptr<void, Free>> buffers_;
};

class ReferenceBackend final : public backend::Backend {
 public:
  explicit ReferenceBackend(const ReferenceOptions& options) : shared_(options) {}

  const char* name() const override { return "reference"; }
  // One request per prefill: the decomposed ragged attention tries every request with every token.
  backend::Caps caps() const override {
    return {.encodings = {Encoding::kF32}, .max_prefill_requests = 1, .max_batched_tokens = 256};
  }
  std::string target() const override { return "reference-f32"; }
  std::vector<std::string> passes() const override {
    return {"functionalize", "decompose", "constant_fold", "cse", "dce"};
  }
  bool Claims(const ir::Function& /*function*/, const ir::Node& /*node*/) const override { return false; }

  Status SetWeights(backend::WeightMap weights, const std::string& /*identity*/) override {
    for (const auto& [name, weight] : weights) {
      if (weight.encoding != Encoding::kF32) {
        return MakeError(ErrorCode::kUnsupported, "weight '" + name + "'", "is {}; the reference backend reads f32",
                         ToString(weight.encoding));
      }
    }
    shared_.weights = std::move(weights);
    return {};
  }

  Result<std::unique_ptr<backend::StateSet>> AllocateStates(
      const std::map<std::string, int64_t>& bytes_by_buffer) override {
    auto states = std::make_unique<HostStates>();
    for (const auto& [buffer, bytes] : bytes_by_buffer) DI_RETURN_IF_ERROR(states->Add(buffer, bytes));
    return states;
  }

  Result<std::unique_ptr<backend::Executable>> Compile(const ir::Module& module,
                                                       const backend::CompileOptions& options) override {
    return CompileReference(module, options, &shared_);
  }

  Status Finalize() override { return shared_.arena.Allocate(); }

  int64_t weight_bytes() const override {
    int64_t bytes = 0;
    for (const auto& [name, weight] : shared_.weights) {
      int64_t elements = 1;
      for (const int64_t size : weight.shape) elements *= size;
      bytes += elements * static_cast<int64_t>(sizeof(float));
    }
    return bytes;
  }

 private:
  Shared shared_;
};

}  // namespace

std::unique_ptr<backend::Backend> CreateReferenceBackend(const ReferenceOptions& options) {
  return std::make_unique<ReferenceBackend>(options);
}

}  // namespace deepinfer::reference
