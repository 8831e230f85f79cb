// config.json to DecoderConfig.
#include <cmath>
#include <limits>
#include <set>
#include <string_view>

#include "models/decoder_config.h"

namespace deepinfer::models {
namespace {

using formats::ConfigNode;

struct Neutral {
  const char* field;
  double value;
};

// Fields of relatives of these architectures that would change results.
constexpr double kNever = std::numeric_limits<double>::quiet_NaN();
constexpr Neutral kRefused[] = {
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"attention_multiplier", kNever},
    {"residual_multiplier", 1},
    {"embedding_multiplier", 1},
    {"logits_scaling", 1},
    {"logit_scale", 1},
    {"clip_qkv", 0},
    {"use_qk_norm", 0},
    {"qk_layernorm", 0},
    {"use_mrope", 0},
    {"use_bidirectional_attention", 0},
    {"num_experts", 0},
    {"num_local_experts", 0},
    {"no_rope_layers", 0},
    {"alibi", 0},
    {"compression_config", 0},
    {"quantization", 0},
    {"use_sliding_window", 0},
    {"attention_chunk_size", 0},
    {"num_kv_shared_layers", 0},
};

Result<int64_t> IntField(const ConfigNode& node, const char* field, int64_t fallback) {
  return fallback == 0 ? node.RequiredInt(field) : node.OptionalInt(field, fallback);
}

Result<std::string> ReadActivation(const ConfigNode& node, const char* fallback) {
  const char* field = node.Has("hidden_activation") ? "hidden_activation" : "hidden_act";
  DI_ASSIGN_OR_RETURN(const std::string name, node.OptionalString(field, fallback));
  if (name == "silu" || name == "swish") return std::string("silu");
  if (name == "gelu_pytorch_tanh" || name == "gelu_new" || name == "gelu_tanh") return std::string("gelu_tanh");
  return MakeError(ErrorCode::kUnsupported, node.Where(field),
                   "activation '{}' is not supported; supported are: silu, gelu_pytorch_tanh", name);
}

Status CheckScalingKeys(const ConfigNode& scaling) {
  static const std::set<std::string> known = {"type",
                                              "rope_type",
                                              "rope_theta",
                                              "partial_rotary_factor",
                                              "factor",
                                              "original_max_position_embeddings",
                                              "low_freq_factor",
                                              "high_freq_factor",
                                              "attention_factor",
                                              "beta_fast",
                                              "beta_slow",
                                              "mscale",
                                              "mscale_all_dim",
                                              "truncate",
                                              "finetuned"};
  for (const auto& [key, value] : scaling.object().items()) {
    if (known.count(key) == 0 && !value.is_null()) {
      return MakeError(ErrorCode::kUnsupported, scaling.Where(key), "this rope setting is not supported");
    }
  }
  return {};
}

Result<std::optional<double>> MaybeFloat(const ConfigNode& node, const char* field) {
  if (!node.Has(field)) return std::optional<double>();
  DI_ASSIGN_OR_RETURN(const double value, node.RequiredFloat(field));
  return std::optional<double>(value);
}

Status ReadScaling(const ConfigNode& node, const ConfigNode& scaling, int64_t max_positions, RopeConfig* rope) {
  DI_RETURN_IF_ERROR(CheckScalingKeys(scaling));
  const char* type_field = scaling.Has("rope_type") ? "rope_type" : "type";
  DI_ASSIGN_OR_RETURN(const std::string name, scaling.OptionalString(type_field, "default"));
  const auto type = ParseRopeType(name);
  if (!type) {
    return MakeError(ErrorCode::kUnsupported, scaling.Where(type_field),
                     "rope type '{}' is not supported; supported are: {}", name, kSupportedRopeTypes);
  }
  rope->type = *type;
  if (*type == RopeType::kDefault) return {};
  // Some models keep the original length beside the rope's settings; then it has priority.
  const ConfigNode& original = node.Has("original_max_position_embeddings") ? node : scaling;
  DI_ASSIGN_OR_RETURN(rope->original_max_positions,
                      original.OptionalInt("original_max_position_embeddings", max_positions));
  if (*type == RopeType::kYarn && !scaling.Has("factor") && rope->original_max_positions > 0) {
    rope->factor = static_cast<double>(max_positions) / static_cast<double>(rope->original_max_positions);
  } else {
    DI_ASSIGN_OR_RETURN(rope->factor, scaling.RequiredFloat("factor"));
  }
  if (*type == RopeType::kLlama3) {
    DI_ASSIGN_OR_RETURN(rope->low_freq_factor, scaling.RequiredFloat("low_freq_factor"));
    DI_ASSIGN_OR_RETURN(rope->high_freq_factor, scaling.RequiredFloat("high_freq_factor"));
  }
  if (*type == RopeType::kYarn) {
    DI_ASSIGN_OR_RETURN(rope->beta_fast, scaling.OptionalFloat("beta_fast", 32));
    DI_ASSIGN_OR_RETURN(rope->beta_slow, scaling.OptionalFloat("beta_slow", 1));
    DI_ASSIGN_OR_RETURN(rope->attention_factor, MaybeFloat(scaling, "attention_factor"));
    DI_ASSIGN_OR_RETURN(rope->mscale, MaybeFloat(scaling, "mscale"));
    DI_ASSIGN_OR_RETURN(rope->mscale_all_dim, MaybeFloat(scaling, "mscale_all_dim"));
    DI_ASSIGN_OR_RETURN(rope->truncate, scaling.OptionalBool("truncate", true));
  }
  return {};
}

Status ReadSizes(const ConfigNode& node, const HfDefaults& defaults, DecoderConfig* c) {
  DI_ASSIGN_OR_RETURN(c->hidden, node.RequiredInt("hidden_size"));
  DI_ASSIGN_OR_RETURN(c->layers, node.RequiredInt("num_hidden_layers"));
  DI_ASSIGN_OR_RETURN(c->ffn, node.RequiredInt("intermediate_size"));
  DI_ASSIGN_OR_RETURN(c->heads, IntField(node, "num_attention_heads", defaults.heads));
  if (c->heads < 1) return MakeError(ErrorCode::kInvalidArgument, node.Where("num_attention_heads"), "is {}", c->heads);
  DI_ASSIGN_OR_RETURN(c->kv_heads,
                      node.OptionalInt("num_key_value_heads", defaults.kv_heads != 0 ? defaults.kv_heads : c->heads));
  DI_ASSIGN_OR_RETURN(c->head_dim,
                      node.OptionalInt("head_dim", defaults.head_dim != 0 ? defaults.head_dim : c->hidden / c->heads));
  if (c->head_dim < 1 || c->head_dim > (1 << 14)) {
    return MakeError(ErrorCode::kInvalidArgument, node.Where("head_dim"), "is {}", c->head_dim);
  }
  DI_ASSIGN_OR_RETURN(c->vocab, IntField(node, "vocab_size", defaults.vocab));
  DI_ASSIGN_OR_RETURN(c->max_positions, IntField(node, "max_position_embeddings", defaults.max_positions));
  return {};
}

}  // namespace

Status RefuseField(const ConfigNode& node, const char* field, double neutral) {
  if (!node.Has(field)) return {};
  const nlohmann::json& value = node.object()[field];
  const bool fits = (value.is_number() && value.get<double>() == neutral) ||
                    (value.is_boolean() && value.get<bool>() == (neutral != 0)) || (value.is_array() && value.empty());
  if (fits) return {};
  return MakeError(ErrorCode::kUnsupported, node.Where(field), "this setting is not supported");
}

Result<RopeConfig> ReadHfRopeNode(const ConfigNode& node, const ConfigNode* scaling, const DecoderConfig& config,
                                  double theta) {
  RopeConfig rope;
  const std::string where = scaling != nullptr ? scaling->where() : node.where();
  DI_ASSIGN_OR_RETURN(double partial, node.OptionalFloat("partial_rotary_factor", 1.0));
  rope.theta = theta;
  if (scaling != nullptr) {
    DI_ASSIGN_OR_RETURN(rope.theta, scaling->OptionalFloat("rope_theta", theta));
    DI_ASSIGN_OR_RETURN(partial, scaling->OptionalFloat("partial_rotary_factor", partial));
    DI_RETURN_IF_ERROR(ReadScaling(node, *scaling, config.max_positions, &rope));
  }
  if (!(partial > 0 && partial <= 1)) {
    return MakeError(ErrorCode::kInvalidArgument, where, "partial_rotary_factor is {}; it must lie in (0, 1]", partial);
  }
  rope.dim = static_cast<int64_t>(static_cast<double>(config.head_dim) * partial);
  DI_RETURN_IF_ERROR(ValidateRope(rope, config.head_dim, where));
  return rope;
}

Result<RopeConfig> ReadHfRope(const ConfigNode& node, const DecoderConfig& config, double default_theta) {
  DI_ASSIGN_OR_RETURN(const double theta, node.OptionalFloat("rope_theta", default_theta));
  DI_ASSIGN_OR_RETURN(const std::optional<ConfigNode> scaling, node.Child("rope_scaling"));
  DI_ASSIGN_OR_RETURN(const std::optional<ConfigNode> parameters, node.Child("rope_parameters"));
  const std::optional<ConfigNode>& used = scaling ? scaling : parameters;
  return ReadHfRopeNode(node, used ? &*used : nullptr, config, theta);
}

Result<DecoderConfig> ReadHf(const formats::HfConfig& config, const char* architecture, const HfDefaults& defaults) {
  const ConfigNode node = config.text();
  for (const Neutral& refused : kRefused) {
    if (defaults.experts && std::string_view(refused.field) == "num_experts") continue;
    DI_RETURN_IF_ERROR(RefuseField(node, refused.field, refused.value));
    DI_RETURN_IF_ERROR(RefuseField(config.root(), refused.field, refused.value));
  }
  DecoderConfig c;
  c.architecture = architecture;
  DI_RETURN_IF_ERROR(ReadSizes(node, defaults, &c));
  DI_ASSIGN_OR_RETURN(c.eps, node.OptionalFloat("rms_norm_eps", 1e-6));
  DI_ASSIGN_OR_RETURN(c.activation, ReadActivation(node, defaults.activation));
  c.tied = config.tie_word_embeddings().value_or(defaults.tied);
  c.attention_scale = 1.0 / std::sqrt(static_cast<double>(c.head_dim));
  for (const int64_t id : config.eos_ids()) {
    if (id < 0 || id > std::numeric_limits<int32_t>::max()) {
      return MakeError(ErrorCode::kInvalidArgument, node.Where("eos_token_id"), "{} is no token id", id);
    }
    c.eos_ids.push_back(static_cast<int32_t>(id));
  }
  return c;
}

}  // namespace deepinfer::models
