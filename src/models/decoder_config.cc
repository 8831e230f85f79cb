#include "models/decoder_config.h"

#include <cmath>

namespace deepinfer::models {
namespace {

// Far above any real model; products of two stay below 2^48.
constexpr int64_t kMaxWidth = int64_t{1} << 24;
constexpr int64_t kMaxStack = int64_t{1} << 28;
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxPositions = int64_t{1} << 30;

Status InRange(int64_t value, int64_t max, const char* name, const std::string& where) {
  if (value >= 1 && value <= max) return {};
  return MakeError(ErrorCode::kInvalidArgument, where, "{} is {}; it must lie in 1..{}", name, value, max);
}

Status Finite(double value, const char* name, const std::string& where) {
  if (std::isfinite(value) && value > 0) return {};
  return MakeError(ErrorCode::kInvalidArgument, where, "{} is {}; it must be a positive number", name, value);
}

}  // namespace

void SetFullLayers(DecoderConfig* config) {
  if (config->layers >= 1 && config->layers <= kMaxLayers) {
    config->layer_kinds.assign(static_cast<size_t>(config->layers), LayerKind::kFull);
  }
}

Status ValidateRope(const RopeConfig& rope, int64_t head_dim, const std::string& where) {
  if (rope.dim < 2 || rope.dim % 2 != 0 || rope.dim > head_dim) {
    return MakeError(ErrorCode::kInvalidArgument, where, "{} rotated dimensions do not fit heads of {}", rope.dim,
                     head_dim);
  }
  DI_RETURN_IF_ERROR(Finite(rope.theta, "the rope base", where));
  DI_RETURN_IF_ERROR(Finite(rope.factor, "the rope factor", where));
  if (rope.type != RopeType::kLlama3 && rope.type != RopeType::kYarn) return {};
  DI_RETURN_IF_ERROR(InRange(rope.original_max_positions, kMaxPositions, "original_max_position_embeddings", where));
  if (rope.type == RopeType::kLlama3) {
    DI_RETURN_IF_ERROR(Finite(rope.low_freq_factor, "low_freq_factor", where));
    DI_RETURN_IF_ERROR(
        Finite(rope.high_freq_factor - rope.low_freq_factor, "high_freq_factor - low_freq_factor", where));
    return {};
  }
  DI_RETURN_IF_ERROR(Finite(rope.theta - 1, "the rope base less 1", where));
  DI_RETURN_IF_ERROR(Finite(rope.beta_fast, "beta_fast", where));
  DI_RETURN_IF_ERROR(Finite(rope.beta_slow, "beta_slow", where));
  if (rope.attention_factor) DI_RETURN_IF_ERROR(Finite(*rope.attention_factor, "attention_factor", where));
  if (!std::isfinite(rope.mscale.value_or(0)) || !std::isfinite(rope.mscale_all_dim.value_or(0))) {
    return MakeError(ErrorCode::kInvalidArgument, where, "mscale and mscale_all_dim must be numbers");
  }
  return Finite(ComputeRope(rope).attention_factor, "the rope's attention factor", where);
}

Status Validate(const DecoderConfig& config, const std::string& where) {
  DI_RETURN_IF_ERROR(InRange(config.hidden, kMaxWidth, "the hidden size", where));
  DI_RETURN_IF_ERROR(InRange(config.layers, kMaxLayers, "the number of layers", where));
  DI_RETURN_IF_ERROR(InRange(config.heads, 1 << 16, "the number of attention heads", where));
  DI_RETURN_IF_ERROR(InRange(config.kv_heads, config.heads, "the number of key/value heads", where));
  DI_RETURN_IF_ERROR(InRange(config.head_dim, 1 << 14, "the head size", where));
  DI_RETURN_IF_ERROR(InRange(config.q_width(), kMaxWidth, "the width of all heads", where));
  DI_RETURN_IF_ERROR(InRange(config.ffn, kMaxWidth, "the feed-forward size", where));
  DI_RETURN_IF_ERROR(InRange(config.vocab, kMaxWidth, "the vocabulary size", where));
  DI_RETURN_IF_ERROR(InRange(config.max_positions, kMaxPositions, "the number of positions", where));
  DI_RETURN_IF_ERROR(Finite(config.eps, "the norms' epsilon", where));
  DI_RETURN_IF_ERROR(Finite(config.attention_scale, "the attention scale", where));
  if (config.heads % config.kv_heads != 0) {
    return MakeError(ErrorCode::kInvalidArgument, where, "{} heads cannot share {} key/value heads evenly",
                     config.heads, config.kv_heads);
  }
  if (static_cast<int64_t>(config.layer_kinds.size()) != config.layers) {
    return MakeError(ErrorCode::kInvalidArgument, where, "{} layer types for {} layers", config.layer_kinds.size(),
                     config.layers);
  }
  if (const ExpertConfig& e = config.experts; e != ExpertConfig()) {
    DI_RETURN_IF_ERROR(InRange(e.count, 1 << 16, "the number of experts", where));
    DI_RETURN_IF_ERROR(InRange(e.used, e.count, "the number of experts of a token", where));
    DI_RETURN_IF_ERROR(InRange(e.ffn, kMaxWidth, "the feed-forward size of an expert", where));
    DI_RETURN_IF_ERROR(InRange(e.count * e.ffn, kMaxStack, "the width of all experts", where));
    DI_RETURN_IF_ERROR(InRange(e.count * config.hidden, kMaxStack, "the outputs of all experts", where));
  }
  for (const LayerKind kind : config.layer_kinds) {
    if (kind == LayerKind::kSliding) {
      DI_RETURN_IF_ERROR(InRange(config.window, kMaxPositions, "the sliding window", where));
      DI_RETURN_IF_ERROR(ValidateRope(config.rope_sliding, config.head_dim, where));
      break;
    }
  }
  for (const int32_t id : config.eos_ids) {
    if (id < 0 || id >= config.vocab) {
      return MakeError(ErrorCode::kInvalidArgument, where, "the end token {} is not in the vocabulary of {}", id,
                       config.vocab);
    }
  }
  return ValidateRope(config.rope, config.head_dim, where);
}

}  // namespace deepinfer::models
