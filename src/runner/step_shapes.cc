#include "runner/step_shapes.h"

#include <algorithm>

#include "runner/buckets.h"

namespace deepinfer::runner {
namespace {

constexpr int64_t kDefaultModelLen = 8192;
constexpr int64_t kDefaultBatchedTokens = 2048;
constexpr int64_t kDefaultTokensPerSequence = 1024;

int64_t BytesPerRow(const models::StateSpec& spec) {
  int64_t bytes = static_cast<int64_t>(SizeOf(spec.dtype));
  for (const int64_t size : spec.row) bytes *= size;
  return bytes;
}

Status ResolveLimits(const models::ModelInfo& info, const std::string& backend, const backend::Caps& caps,
                     RunnerOptions* options) {
  RunnerOptions& o = *options;
  if (o.max_model_len == 0) o.max_model_len = std::min(info.max_positions, kDefaultModelLen);
  if (o.max_model_len < 1 || o.max_model_len > info.max_positions) {
    return MakeError(ErrorCode::kInvalidArgument, "--max-model-len", "must be 1 to {}, the model's limit; got {}",
                     info.max_positions, o.max_model_len);
  }
  if (o.max_num_seqs < 1 || o.max_num_seqs > 1024) {
    return MakeError(ErrorCode::kInvalidArgument, "--max-num-seqs", "must be 1 to 1024, got {}", o.max_num_seqs);
  }
  const int64_t limit = caps.max_batched_tokens;
  if (o.max_num_batched_tokens == 0) {
    o.max_num_batched_tokens = limit > 0 ? std::min(limit, kDefaultBatchedTokens) : kDefaultBatchedTokens;
  }
  if (o.max_num_batched_tokens < 1 || o.max_num_batched_tokens > (1 << 20)) {
    return MakeError(ErrorCode::kInvalidArgument, "--max-num-batched-tokens", "must be 1 to 1048576, got {}",
                     o.max_num_batched_tokens);
  }
  if (limit > 0 && o.max_num_batched_tokens > limit) {
    return MakeError(ErrorCode::kInvalidArgument, "--max-num-batched-tokens", "the {} backend takes at most {}, got {}",
                     backend, limit, o.max_num_batched_tokens);
  }
  if (o.block_size < 1 || o.block_size > 1024) {
    return MakeError(ErrorCode::kInvalidArgument, "block_size", "must be 1 to 1024, got {}", o.block_size);
  }
  return {};
}

Status ResolveBuckets(RunnerOptions* options) {
  RunnerOptions& o = *options;
  const int64_t tokens = std::min(o.max_num_batched_tokens, o.max_model_len * o.max_num_seqs);
  if (o.prefill_buckets.empty()) o.prefill_buckets = DefaultPrefillBuckets(tokens);
  if (o.decode_buckets.empty()) o.decode_buckets = DefaultDecodeBuckets(o.max_num_seqs);
  DI_RETURN_IF_ERROR(ValidateBuckets("prefill_buckets", o.prefill_buckets, "max_num_batched_tokens", tokens));
  return ValidateBuckets("decode_buckets", o.decode_buckets, "max_num_seqs", o.max_num_seqs);
}

// Blocks of KV without the null block.
Result<int64_t> CountBlocks(const RunnerOptions& o, int64_t max_blocks, int64_t block_bytes) {
  if (o.kv_cache_memory <= 0 || block_bytes <= 0) {
    return std::max(CeilDiv(o.max_num_seqs * kDefaultTokensPerSequence, o.block_size), max_blocks);
  }
  const int64_t blocks = o.kv_cache_memory / block_bytes;
  if (blocks >= max_blocks) return blocks;
  return MakeError(ErrorCode::kResourceExhausted, "--kv-cache-memory",
                   "{} MiB hold {} tokens, but one context of {} tokens needs {} MiB; lower --max-model-len to {} or "
                   "give more memory",
                   o.kv_cache_memory >> 20, blocks * o.block_size, o.max_model_len,
                   (max_blocks * block_bytes >> 20) + 1, std::max<int64_t>(blocks, 1) * o.block_size);
}

}  // namespace

int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

int64_t PagedBytesPerToken(const std::vector<models::StateSpec>& specs) {
  int64_t bytes = 0;
  for (const models::StateSpec& spec : specs) {
    if (spec.kind == models::StateKind::kPaged) bytes += BytesPerRow(spec);
  }
  return bytes;
}

models::StepShape StepSizes::ShapeFor(models::Phase phase, int64_t bucket) const {
  const bool prefill = phase == models::Phase::kPrefill;
  models::StepShape shape;
  shape.phase = phase;
  shape.tokens = bucket;
  shape.rows = prefill ? prefill_rows : bucket;
  shape.requests = prefill ? prefill_requests : bucket;
  shape.block_size = block_size;
  shape.blocks = blocks;
  shape.max_blocks = max_blocks;
  shape.slots = slots;
  shape.activations = activations;
  shape.kv = kv;
  shape.ranks = ranks;
  return shape;
}

std::map<std::string, int64_t> StepSizes::StateBytes(const std::vector<models::StateSpec>& specs) const {
  std::map<std::string, int64_t> bytes;
  for (const models::StateSpec& spec : specs) {
    const int64_t rows = spec.kind == models::StateKind::kPaged ? blocks * block_size : slots + 1;
    bytes[spec.buffer.empty() ? spec.name : spec.buffer] += BytesPerRow(spec) * rows;
  }
  bytes[models::kTokenStore] = (slots + 1) * static_cast<int64_t>(sizeof(int32_t));
  return bytes;
}

Result<StepConfig> ResolveSteps(const models::Model& model, const std::string& backend, const backend::Caps& caps,
                                RunnerOptions options) {
  StepConfig config;
  DI_RETURN_IF_ERROR(ResolveLimits(model.info(), backend, caps, &options));
  DI_RETURN_IF_ERROR(ResolveBuckets(&options));
  StepSizes& sizes = config.sizes;
  sizes.prefill_rows = sizes.slots = options.max_num_seqs;
  sizes.prefill_requests = caps.max_prefill_requests == 0 ? options.max_num_seqs : caps.max_prefill_requests;
  sizes.block_size = options.block_size;
  sizes.activations = options.activations;
  if (!options.kv) options.kv = options.activations;
  sizes.kv = *options.kv;
  sizes.ranks = caps.ranks;
  sizes.max_blocks = CeilDiv(options.max_model_len, options.block_size);
  const int64_t block_bytes = PagedBytesPerToken(model.States(sizes.kv, caps.ranks)) * options.block_size;
  DI_ASSIGN_OR_RETURN(const int64_t blocks, CountBlocks(options, sizes.max_blocks, block_bytes));
  sizes.blocks = blocks + 1;
  config.options = std::move(options);
  return config;
}

}  // namespace deepinfer::runner
