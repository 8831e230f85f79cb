#include "runner/memory_table.h"

#include <algorithm>

namespace deepinfer::runner {
namespace {

int64_t Mib(int64_t bytes) {
  return (bytes + (int64_t{1} << 20) - 1) >> 20;
}

// What to do about it: a smaller cache, or nothing helps.
std::string Advice(const MemoryNeeds& needs, const MemoryLimit& limit) {
  const int64_t room = limit.bytes - needs.weights - needs.buffers;
  const int64_t tokens = TokensThatFit(needs, limit);
  if (tokens < 1) return "the weights alone leave no room for a context";
  return fmt::format("{} tokens of KV cache fit: --kv-cache-memory {}M{}", tokens, room >> 20,
                     tokens < needs.context ? fmt::format(" with --max-model-len {}", tokens) : "");
}

}  // namespace

MemoryNeeds NeedsOf(const models::Model& model, const std::vector<models::WeightTable>& types,
                    const StepConfig& steps) {
  const int64_t ranks = steps.sizes.ranks;
  const std::vector<models::StateSpec> specs = model.States(steps.sizes.kv, ranks);
  MemoryNeeds needs;
  for (const models::WeightTable& table : types) {
    for (const auto& [name, type] : table.all()) needs.weights += type.Bytes();
  }
  for (const auto& [name, size] : steps.sizes.StateBytes(specs)) needs.states += size * ranks;
  needs.buffers = StepBuffers::Bytes(LimitsOf(model, steps));
  needs.per_token = PagedBytesPerToken(specs) * ranks;
  needs.context = steps.options.max_model_len;
  return needs;
}

BufferLimits LimitsOf(const models::Model& model, const StepConfig& steps) {
  const RunnerOptions& options = steps.options;
  BufferLimits limits;
  limits.tokens = std::max(options.prefill_buckets.back(), options.decode_buckets.back());
  limits.rows = options.max_num_seqs;
  limits.requests = std::max(options.max_num_seqs, steps.sizes.prefill_requests);
  limits.max_blocks = steps.sizes.max_blocks;
  limits.vocab = model.info().vocab_size;
  limits.adjustments = models::AdjustmentsPerRow(steps.sizes.ShapeFor(models::Phase::kDecode, 1), limits.vocab);
  return limits;
}

int64_t TokensThatFit(const MemoryNeeds& needs, const MemoryLimit& limit) {
  const int64_t room = limit.bytes - needs.weights - needs.buffers;
  return needs.per_token > 0 ? std::max<int64_t>(0, room) / needs.per_token : 0;
}

std::string DescribeMemory(const MemoryNeeds& needs) {
  return fmt::format("weights {} MiB + KV cache and states {} MiB + step buffers {} MiB = {} MiB", Mib(needs.weights),
                     Mib(needs.states), Mib(needs.buffers), Mib(needs.weights + needs.states + needs.buffers));
}

Status CheckMemory(const MemoryNeeds& needs, const MemoryLimit& limit) {
  const int64_t total = needs.weights + needs.states + needs.buffers;
  if (limit.bytes == 0 || total <= limit.bytes) return {};
  return MakeError(ErrorCode::kResourceExhausted, "memory", "{}, but the {} is {} MiB; {}", DescribeMemory(needs),
                   limit.source, limit.bytes >> 20, Advice(needs, limit));
}

}  // namespace deepinfer::runner
