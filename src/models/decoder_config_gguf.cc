// GGUF metadata to DecoderConfig. Key names: the GGUF specification (ggml project, docs/gguf.md).
#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "models/decoder_config.h"

namespace deepinfer::models {
namespace {

using formats::GgufFile;

// Keys below "<architecture>." that are read here or by an architecture, or that change nothing. Any other is refused:
// it may be the one that makes the answers different.
constexpr std::string_view kKnownKeys[] = {
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "vocab_size",
    "tensor_data_layout",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
};
// Of architectures with experts.
constexpr std::string_view kExpertKeys[] = {"expert_count", "expert_used_count", "expert_feed_forward_length"};
// Known, and accepted only with this value.
struct Neutral {
  std::string_view key;
  double value;
};
constexpr Neutral kNeutralKeys[] = {
    {"expert_count", 0},
    {"expert_used_count", 0},
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"logit_scale", 1},
    {"residual_scale", 1},
    {"embedding_scale", 1},
    {"attention.causal", 1},
    {"pooling_type", 0},
    {"rope.scaling.attn_factor", 1},
    {"rope.scaling.yarn_attn_factor", 1},
    {"rope.scaling.yarn_ext_factor", 1},
};

double AsNumber(const formats::GgufValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* number = std::get_if<int64_t>(&value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<uint64_t>(&value)) return static_cast<double>(*number);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  return std::numeric_limits<double>::quiet_NaN();
}

Status CheckKeys(const GgufFile& file, const std::string& prefix, bool experts) {
  for (const auto& [key, value] : file.metadata()) {
    if (!key.starts_with(prefix)) continue;
    const std::string_view rest = std::string_view(key).substr(prefix.size());
    if (std::ranges::find(kKnownKeys, rest) != std::end(kKnownKeys)) continue;
    if (experts && std::ranges::find(kExpertKeys, rest) != std::end(kExpertKeys)) continue;
    const auto neutral = std::find_if(std::begin(kNeutralKeys), std::end(kNeutralKeys),
                                      [&](const Neutral& known) { return known.key == rest; });
    if (neutral != std::end(kNeutralKeys) && AsNumber(value) == neutral->value) continue;
    return MakeError(ErrorCode::kUnsupported, fmt::format("{}: {}", file.path(), key), "this setting is not supported");
  }
  return {};
}

// A number that some files give per layer; then all must be equal.
Result<int64_t> UniformInt(const GgufFile& file, const std::string& key, int64_t fallback) {
  const auto it = file.metadata().find(key);
  if (it == file.metadata().end() && fallback != 0) return fallback;
  if (it == file.metadata().end() || !std::holds_alternative<std::vector<int64_t>>(it->second))
    return file.RequiredInt(key);
  const auto& values = std::get<std::vector<int64_t>>(it->second);
  if (values.empty() || std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) != values.end()) {
    return MakeError(ErrorCode::kUnsupported, fmt::format("{}: {}", file.path(), key),
                     "layers that differ are not supported");
  }
  return values.front();
}

Status ReadVocabulary(const formats::Checkpoint& checkpoint, const std::string& prefix, DecoderConfig* c) {
  const GgufFile& file = *checkpoint.gguf();
  const formats::CheckpointTensor* table = checkpoint.Find("token_embd.weight");
  if (table == nullptr || table->shape.size() != 2) {
    return MakeError(ErrorCode::kNotFound, fmt::format("{}: tensor token_embd.weight", file.path()),
                     "the embedding table is missing or not a matrix");
  }
  c->vocab = table->shape[0];
  DI_ASSIGN_OR_RETURN(const int64_t stated, file.OptionalInt(prefix + "vocab_size", c->vocab));
  if (stated != c->vocab) {
    return MakeError(ErrorCode::kInvalidArgument, fmt::format("{}: {}vocab_size", file.path(), prefix),
                     "is {}, but token_embd.weight has {} rows", stated, c->vocab);
  }
  DI_ASSIGN_OR_RETURN(const auto* tokens, file.Strings("tokenizer.ggml.tokens"));
  if (tokens != nullptr && static_cast<int64_t>(tokens->size()) > c->vocab) {
    return MakeError(ErrorCode::kInvalidArgument, fmt::format("{}: tokenizer.ggml.tokens", file.path()),
                     "has {} entries, but token_embd.weight only {} rows", tokens->size(), c->vocab);
  }
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    DI_ASSIGN_OR_RETURN(const int64_t id, file.OptionalInt(key, -1));
    if (id < 0 && !file.Has(key)) continue;
    if (id < 0 || id >= c->vocab) {
      return MakeError(ErrorCode::kInvalidArgument, fmt::format("{}: {}", file.path(), key), "{} is no token id", id);
    }
    if (std::find(c->eos_ids.begin(), c->eos_ids.end(), id) == c->eos_ids.end()) {
      c->eos_ids.push_back(static_cast<int32_t>(id));
    }
  }
  return {};
}

}  // namespace

Result<RopeConfig> ReadGgufRope(const GgufFile& file, const std::string& architecture, const DecoderConfig& config) {
  const std::string prefix = architecture + ".rope.";
  RopeConfig rope;
  DI_ASSIGN_OR_RETURN(rope.theta, file.OptionalFloat(prefix + "freq_base", 10000));
  DI_ASSIGN_OR_RETURN(rope.dim, file.OptionalInt(prefix + "dimension_count", config.head_dim));
  const std::string type_key = prefix + "scaling.type";
  const bool scaled = file.Has(prefix + "scaling.factor") || file.Has(prefix + "scale_linear");
  DI_ASSIGN_OR_RETURN(std::string type, file.OptionalString(type_key, scaled ? "linear" : "none"));
  if (type == "none") return rope;
  DI_ASSIGN_OR_RETURN(const double linear, file.OptionalFloat(prefix + "scale_linear", 1));
  DI_ASSIGN_OR_RETURN(rope.factor, file.OptionalFloat(prefix + "scaling.factor", linear));
  if (type == "linear") {
    rope.type = RopeType::kLinear;
    return rope;
  }
  if (type != "yarn") {
    return MakeError(ErrorCode::kUnsupported, fmt::format("{}: {}", file.path(), type_key),
                     "rope type '{}' is not supported; supported are: none, linear, yarn", type);
  }
  rope.type = RopeType::kYarn;
  DI_ASSIGN_OR_RETURN(rope.original_max_positions,
                      file.OptionalInt(prefix + "scaling.original_context_length", config.max_positions));
  DI_ASSIGN_OR_RETURN(rope.beta_fast, file.OptionalFloat(prefix + "scaling.yarn_beta_fast", 32));
  DI_ASSIGN_OR_RETURN(rope.beta_slow, file.OptionalFloat(prefix + "scaling.yarn_beta_slow", 1));
  return rope;
}

Result<DecoderConfig> ReadGguf(const formats::Checkpoint& checkpoint, const char* architecture, bool experts) {
  const GgufFile& file = *checkpoint.gguf();
  const std::string prefix = std::string(architecture) + ".";
  DI_RETURN_IF_ERROR(CheckKeys(file, prefix, experts));
  DecoderConfig c;
  c.architecture = architecture;
  DI_ASSIGN_OR_RETURN(c.hidden, file.RequiredInt(prefix + "embedding_length"));
  DI_ASSIGN_OR_RETURN(c.layers, file.RequiredInt(prefix + "block_count"));
  DI_ASSIGN_OR_RETURN(c.ffn, UniformInt(file, prefix + "feed_forward_length", 0));
  DI_ASSIGN_OR_RETURN(c.heads, UniformInt(file, prefix + "attention.head_count", 0));
  if (c.heads < 1) {
    return MakeError(ErrorCode::kInvalidArgument, fmt::format("{}: {}attention.head_count", file.path(), prefix),
                     "is {}", c.heads);
  }
  DI_ASSIGN_OR_RETURN(c.kv_heads, UniformInt(file, prefix + "attention.head_count_kv", c.heads));
  DI_ASSIGN_OR_RETURN(c.head_dim, file.OptionalInt(prefix + "attention.key_length", c.hidden / c.heads));
  DI_ASSIGN_OR_RETURN(const int64_t value_dim, file.OptionalInt(prefix + "attention.value_length", c.head_dim));
  if (value_dim != c.head_dim) {
    return MakeError(ErrorCode::kUnsupported, fmt::format("{}: {}attention.value_length", file.path(), prefix),
                     "values of {} and keys of {} elements are not supported", value_dim, c.head_dim);
  }
  DI_ASSIGN_OR_RETURN(c.max_positions, file.RequiredInt(prefix + "context_length"));
  DI_ASSIGN_OR_RETURN(c.eps, file.RequiredFloat(prefix + "attention.layer_norm_rms_epsilon"));
  DI_RETURN_IF_ERROR(ReadVocabulary(checkpoint, prefix, &c));
  DI_ASSIGN_OR_RETURN(c.rope, ReadGgufRope(file, architecture, c));
  if (experts) {  // files of these architectures hold models that normalise
    DI_ASSIGN_OR_RETURN(c.experts.count, file.RequiredInt(prefix + "expert_count"));
    DI_ASSIGN_OR_RETURN(c.experts.used, file.RequiredInt(prefix + "expert_used_count"));
    DI_ASSIGN_OR_RETURN(c.experts.ffn, file.RequiredInt(prefix + "expert_feed_forward_length"));
    c.experts.normalise = true;
  }
  c.activation = "silu";
  c.attention_scale = 1.0 / std::sqrt(static_cast<double>(c.head_dim));
  c.tied = checkpoint.Find("output.weight") == nullptr;
  c.rope_factors = checkpoint.Find("rope_freqs.weight") != nullptr;
  c.qkv_bias = checkpoint.Find("blk.0.attn_q.bias") != nullptr;
  c.o_bias = checkpoint.Find("blk.0.attn_output.bias") != nullptr;
  c.mlp_bias = checkpoint.Find("blk.0.ffn_up.bias") != nullptr;
  return c;
}

}  // namespace deepinfer::models
