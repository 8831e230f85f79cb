#include "models/tensor_parallel.h"

#include <algorithm>

namespace deepinfer::models {
namespace {

constexpr char kWhere[] = "--tensor-parallel-size";

Status Divides(int64_t count, int64_t ranks, const char* what) {
  if (count % ranks == 0) return {};
  return MakeError(ErrorCode::kInvalidArgument, kWhere, "the model's {} {} do not divide by {}", count, what, ranks);
}

}  // namespace

Result<DecoderConfig> ConfigOfRank(const DecoderConfig& config, int64_t ranks) {
  if (ranks < 1) return MakeError(ErrorCode::kInvalidArgument, kWhere, "must be positive, got {}", ranks);
  if (ranks > 1 && config.experts.count > 0) {
    return MakeError(ErrorCode::kUnsupported, kWhere, "experts are not divided among ranks");
  }
  DI_RETURN_IF_ERROR(Divides(config.heads, ranks, "attention heads"));
  DI_RETURN_IF_ERROR(Divides(config.ffn, ranks, "feed-forward channels"));
  if (ranks % config.kv_heads != 0) DI_RETURN_IF_ERROR(Divides(config.kv_heads, ranks, "key/value heads"));
  DecoderConfig own = config;
  own.heads /= ranks;
  own.ffn /= ranks;
  own.kv_heads = std::max<int64_t>(1, config.kv_heads / ranks);
  return own;
}

WeightShard ShardOf(Split split, const DecoderConfig& config, int64_t ranks) {
  WeightShard shard;
  if (split == Split::kOutputs || (split == Split::kVocabulary && config.vocab % ranks == 0)) shard = {0, ranks};
  if (split == Split::kKvOutputs) shard = {0, std::min(ranks, config.kv_heads)};
  if (split == Split::kInputs) shard = {1, ranks};
  return shard.pieces > 1 ? shard : WeightShard();
}

}  // namespace deepinfer::models
