#include "models/gguf_export.h"

#include <algorithm>
#include <cmath>

#include "models/decoder_model.h"
#include "models/tensor_names.h"

namespace deepinfer::models {
namespace {

constexpr double kDefaultSlidingTheta = 10000;
constexpr int64_t kDefaultPattern = 6;

Result<const DecoderConfig*> ConfigOf(const Model& model) {
  const auto* decoder = dynamic_cast<const DecoderModel*>(&model);
  if (decoder != nullptr) return &decoder->config();
  return MakeError(ErrorCode::kUnsupported, model.info().architecture, "GGUF files have no such model");
}

uint32_t Unsigned(int64_t value) {
  return static_cast<uint32_t>(value);
}

void AddRope(const DecoderConfig& c, formats::GgufWriter* writer) {
  const std::string prefix = c.architecture + ".rope.";
  writer->AddMetadata(prefix + "dimension_count", Unsigned(c.rope.dim));
  writer->AddMetadata(prefix + "freq_base", static_cast<float>(c.rope.theta));
  if (c.rope.type == RopeType::kLinear) {
    writer->AddMetadata(prefix + "scaling.type", "linear");
    writer->AddMetadata(prefix + "scaling.factor", static_cast<float>(c.rope.factor));
  }
  if (c.rope.type == RopeType::kYarn) {
    writer->AddMetadata(prefix + "scaling.type", "yarn");
    writer->AddMetadata(prefix + "scaling.factor", static_cast<float>(c.rope.factor));
    writer->AddMetadata(prefix + "scaling.original_context_length", Unsigned(c.rope.original_max_positions));
    writer->AddMetadata(prefix + "scaling.yarn_beta_fast", static_cast<float>(c.rope.beta_fast));
    writer->AddMetadata(prefix + "scaling.yarn_beta_slow", static_cast<float>(c.rope.beta_slow));
  }
}

void AddSliding(const DecoderConfig& c, formats::GgufWriter* writer) {
  const auto full = std::find(c.layer_kinds.begin(), c.layer_kinds.end(), LayerKind::kFull);
  const int64_t pattern = full - c.layer_kinds.begin() + 1;
  writer->AddMetadata(c.architecture + ".attention.sliding_window", Unsigned(c.window));
  if (pattern != kDefaultPattern) {
    writer->AddMetadata(c.architecture + ".attention.sliding_window_pattern", Unsigned(pattern));
  }
  if (c.rope_sliding.theta != kDefaultSlidingTheta) {
    writer->AddMetadata(c.architecture + ".rope.freq_base_swa", static_cast<float>(c.rope_sliding.theta));
  }
}

bool Near(double a, double b) {
  return std::fabs(a - b) <= 1e-6 * std::max(std::fabs(a), std::fabs(b));
}

bool SameFrequencies(const RopeConfig& a, const RopeConfig& b) {
  const RopeFrequencies x = ComputeRope(a), y = ComputeRope(b);
  return Near(x.attention_factor, y.attention_factor) &&
         std::equal(x.inverse.begin(), x.inverse.end(), y.inverse.begin(), y.inverse.end(), Near);
}

}  // namespace

Status AddGgufMetadata(const Model& model, formats::GgufWriter* writer) {
  DI_ASSIGN_OR_RETURN(const DecoderConfig* config, ConfigOf(model));
  const DecoderConfig& c = *config;
  const std::string prefix = c.architecture + ".";
  writer->AddMetadata("general.architecture", c.architecture);
  writer->AddMetadata(prefix + "block_count", Unsigned(c.layers));
  writer->AddMetadata(prefix + "context_length", Unsigned(c.max_positions));
  writer->AddMetadata(prefix + "embedding_length", Unsigned(c.hidden));
  writer->AddMetadata(prefix + "feed_forward_length", Unsigned(c.ffn));
  writer->AddMetadata(prefix + "vocab_size", Unsigned(c.vocab));
  writer->AddMetadata(prefix + "attention.head_count", Unsigned(c.heads));
  writer->AddMetadata(prefix + "attention.head_count_kv", Unsigned(c.kv_heads));
  writer->AddMetadata(prefix + "attention.key_length", Unsigned(c.head_dim));
  writer->AddMetadata(prefix + "attention.value_length", Unsigned(c.head_dim));
  writer->AddMetadata(prefix + "attention.layer_norm_rms_epsilon", static_cast<float>(c.eps));
  if (c.experts.count > 0) {
    writer->AddMetadata(prefix + "expert_count", Unsigned(c.experts.count));
    writer->AddMetadata(prefix + "expert_used_count", Unsigned(c.experts.used));
    writer->AddMetadata(prefix + "expert_feed_forward_length", Unsigned(c.experts.ffn));
  }
  AddRope(c, writer);
  if (c.window > 0) AddSliding(c, writer);
  return {};
}

Result<GgufTensorForm> GgufFormOf(const Model& model, const std::string& weight) {
  DI_ASSIGN_OR_RETURN(const DecoderConfig* c, ConfigOf(model));
  GgufTensorForm form;
  form.name = GgufName(c->architecture, weight);
  if (form.name == weight) {
    return MakeError(ErrorCode::kUnsupported, weight, "{} GGUF files have no name for it", c->architecture);
  }
  if (c->architecture == "llama") {
    const bool is_q = weight.find(".self_attn.q_proj.") != std::string::npos;
    const bool is_k = weight.find(".self_attn.k_proj.") != std::string::npos;
    form.interleaved_heads = is_q ? c->heads : is_k ? c->kv_heads : 0;
    form.rotated = c->rope.dim;
  }
  if (weight.ends_with("norm.weight")) form.offset = static_cast<float>(c->norm_offset);
  return form;
}

Result<std::vector<float>> GgufRopeFactors(const Model& model) {
  DI_ASSIGN_OR_RETURN(const DecoderConfig* c, ConfigOf(model));
  std::vector<float> factors;
  if (c->rope.type != RopeType::kLlama3) return factors;
  RopeConfig plain = c->rope;
  plain.type = RopeType::kDefault;
  const RopeFrequencies scaled = ComputeRope(c->rope), unscaled = ComputeRope(plain);
  for (size_t i = 0; i < scaled.inverse.size(); ++i) factors.push_back(unscaled.inverse[i] / scaled.inverse[i]);
  return factors;
}

Status CheckGgufSaysTheSame(const Model& model, const Model& read_back, const std::string& where) {
  DI_ASSIGN_OR_RETURN(const DecoderConfig* a, ConfigOf(model));
  DI_ASSIGN_OR_RETURN(const DecoderConfig* b, ConfigOf(read_back));
  const bool has_sliding = a->window > 0;
  const std::pair<const char*, bool> settings[] = {
      {"the sizes", a->hidden == b->hidden && a->layers == b->layers && a->heads == b->heads &&
                        a->kv_heads == b->kv_heads && a->head_dim == b->head_dim && a->ffn == b->ffn &&
                        a->vocab == b->vocab && a->max_positions == b->max_positions},
      {"the norms' epsilon", Near(a->eps, b->eps)},
      {"the scale of attention", Near(a->attention_scale, b->attention_scale)},
      {"the scale of embeddings", Near(a->embedding_scale, b->embedding_scale)},
      {"the activation", a->activation == b->activation},
      {"the experts", a->experts == b->experts},
      {"the biases", a->qkv_bias == b->qkv_bias && a->o_bias == b->o_bias && a->mlp_bias == b->mlp_bias},
      {"the tied head", a->tied == b->tied},
      {"the kinds of layers", a->layer_kinds == b->layer_kinds && a->window == b->window},
      // llama3's frequencies become a tensor of factors.
      {"the rope", a->rope.type == RopeType::kLlama3 ? b->rope_factors : SameFrequencies(a->rope, b->rope)},
      {"the rope of sliding layers", !has_sliding || SameFrequencies(a->rope_sliding, b->rope_sliding)},
  };
  for (const auto& [name, same] : settings) {
    if (!same) {
      return MakeError(ErrorCode::kUnsupported, where, "a GGUF file of {} cannot say what this model has for {}",
                       a->architecture, name);
    }
  }
  return {};
}

}  // namespace deepinfer::models
