#include "models/tensor_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

namespace deepinfer::models {
namespace {

struct Mapping {
  std::string_view gguf;
  std::string_view canonical;
};

constexpr Mapping kGlobal[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
    {"rope_freqs.weight", "rope_freqs.weight"},
};

constexpr Mapping kLayerPrefix = {"blk.", "model.layers."};

// Without the ending ".weight" or ".bias".
constexpr Mapping kLayer[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.gate_proj"},
    {"ffn_up_exps", "mlp.experts.up_proj"},
    {"ffn_down_exps", "mlp.experts.down_proj"},
};
constexpr Mapping kPreNorm[] = {{"ffn_norm", "post_attention_layernorm"}};
constexpr Mapping kSandwichNorm[] = {{"post_attention_norm", "post_attention_layernorm"},
                                     {"ffn_norm", "pre_feedforward_layernorm"},
                                     {"post_ffw_norm", "post_feedforward_layernorm"}};

using Side = std::string_view Mapping::*;  // which of the two names is looked for

template <size_t N>
const Mapping* Lookup(const Mapping (&table)[N], Side side, std::string_view name) {
  const auto it = std::find_if(std::begin(table), std::end(table), [&](const Mapping& m) { return m.*side == name; });
  return it == std::end(table) ? nullptr : it;
}

const Mapping* LookupInLayer(std::string_view architecture, Side side, std::string_view name) {
  if (const Mapping* mapping = Lookup(kLayer, side, name)) return mapping;
  return architecture == "gemma3" ? Lookup(kSandwichNorm, side, name) : Lookup(kPreNorm, side, name);
}

bool IsNumber(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// A layer's tensor: "blk.3.attn_q.bias", "model.layers.3.self_attn.q_proj.bias".
struct LayerName {
  std::string_view index, name, ending;
};

std::optional<LayerName> ParseLayerName(std::string_view text, std::string_view prefix) {
  const size_t dot = text.find('.', prefix.size());
  const size_t last = text.rfind('.');
  if (!text.starts_with(prefix) || dot == std::string_view::npos || last <= dot) return std::nullopt;
  const LayerName parsed{text.substr(prefix.size(), dot - prefix.size()), text.substr(dot + 1, last - dot - 1),
                         text.substr(last + 1)};
  if (!IsNumber(parsed.index) || (parsed.ending != "weight" && parsed.ending != "bias")) return std::nullopt;
  return parsed;
}

std::string Translate(std::string_view architecture, std::string_view text, Side from, Side to) {
  if (const Mapping* global = Lookup(kGlobal, from, text)) return std::string(global->*to);
  const auto layer = ParseLayerName(text, kLayerPrefix.*from);
  const Mapping* mapping = layer ? LookupInLayer(architecture, from, layer->name) : nullptr;
  if (mapping == nullptr) return std::string(text);
  return fmt::format("{}{}.{}.{}", kLayerPrefix.*to, layer->index, mapping->*to, layer->ending);
}

}  // namespace

std::string CanonicalName(std::string_view architecture, std::string_view gguf_name) {
  return Translate(architecture, gguf_name, &Mapping::gguf, &Mapping::canonical);
}

std::string GgufName(std::string_view architecture, std::string_view canonical_name) {
  return Translate(architecture, canonical_name, &Mapping::canonical, &Mapping::gguf);
}

std::string CanonicalHfName(std::string_view name) {
  constexpr Mapping kPrefixes[] = {{"language_model.model.", "model."},
                                   {"model.language_model.", "model."},
                                   {"language_model.lm_head.", "lm_head."}};
  for (const Mapping& prefix : kPrefixes) {
    if (name.starts_with(prefix.gguf)) return fmt::format("{}{}", prefix.canonical, name.substr(prefix.gguf.size()));
  }
  return std::string(name);
}

bool IsIgnorable(std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attn_rot_embd");
}

bool IsVisionTensor(std::string_view name) {
  if (name.starts_with("model.")) name.remove_prefix(6);
  return name.starts_with("vision_tower.") || name.starts_with("multi_modal_projector.");
}

}  // namespace deepinfer::models
