#include "reference/reference.h"

#include <algorithm>
#include <map>

#include "reference/executable.h"
#include "reference/states.h"

namespace deepinfer::reference {
namespace {

class ReferenceBackend final : public backend::Backend {
 public:
  explicit ReferenceBackend(const ReferenceOptions& options) : shared_(options) {}

  const char* name() const override { return "reference"; }
  // One request per prefill: the decomposed ragged attention tries every request with every token.
  backend::Caps caps() const override {
    return {.encodings = {Encoding::kF32},
            .max_prefill_requests = 1,
            .max_batched_tokens = 256,
            .ranks = shared_.options.ranks};
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
      if (!weight.shards.empty() && static_cast<int64_t>(weight.shards.size()) != shared_.options.ranks) {
        return MakeError(ErrorCode::kInvalidArgument, "weight '" + name + "'", "is of {} ranks, this backend runs {}",
                         weight.shards.size(), shared_.options.ranks);
      }
    }
    shared_.weights = std::move(weights);
    return {};
  }

  Result<std::unique_ptr<backend::StateSet>> AllocateStates(
      const std::map<std::string, int64_t>& bytes_by_buffer) override {
    return RankStates::Allocate(bytes_by_buffer, shared_.options.ranks);
  }

  Result<std::unique_ptr<backend::Executable>> Compile(const ir::Module& module,
                                                       const backend::CompileOptions& options) override {
    return CompileReference(module, options, &shared_);
  }

  Status Finalize() override { return shared_.arena.Allocate(); }

  int64_t weight_bytes() const override {
    int64_t bytes = 0;
    for (const auto& [name, weight] : shared_.weights) {
      int64_t elements = std::max<int64_t>(1, static_cast<int64_t>(weight.shards.size()));
      for (const int64_t size : weight.shape) elements *= size;
      bytes += elements * static_cast<int64_t>(sizeof(float));
    }
    return bytes;
  }

  int64_t arena_bytes() const override { return shared_.arena.bytes() + shared_.own_bytes; }

 private:
  Shared shared_;
};

}  // namespace

std::unique_ptr<backend::Backend> CreateReferenceBackend(const ReferenceOptions& options) {
  return std::make_unique<ReferenceBackend>(options);
}

}  // namespace deepinfer::reference
