#include "models/tensor_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

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

// Without the ending ".weight" or ".bias".
constexpr Mapping kLayer[] = {
    {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},      {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"}, {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};
constexpr Mapping kPreNorm[] = {{"ffn_norm", "post_attention_layernorm"}};
constexpr Mapping kSandwichNorm[] = {{"post_attention_norm", "post_attention_layernorm"},
                                     {"ffn_norm", "pre_feedforward_layernorm"},
                                     {"post_ffw_norm", "post_feedforward_layernorm"}};

template <size_t N>
const Mapping* Lookup(const Mapping (&table)[N], std::string_view name) {
  const auto it = std::find_if(std::begin(table), std::end(table), [&](const Mapping& m) { return m.gguf == name; });
  return it == std::end(table) ? nullptr : it;
}

bool IsNumber(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string CanonicalName(std::string_view architecture, std::string_view gguf_name) {
  if (const Mapping* global = Lookup(kGlobal, gguf_name)) return std::string(global->canonical);
  constexpr std::string_view kBlock = "blk.";
  const size_t dot = gguf_name.find('.', kBlock.size());
  const size_t last = gguf_name.rfind('.');
  if (!gguf_name.starts_with(kBlock) || dot == std::string_view::npos || last <= dot) return std::string(gguf_name);
  const std::string_view index = gguf_name.substr(kBlock.size(), dot - kBlock.size());
  const std::string_view name = gguf_name.substr(dot + 1, last - dot - 1);
  const std::string_view ending = gguf_name.substr(last + 1);
  const Mapping* mapping = Lookup(kLayer, name);
  if (mapping == nullptr) mapping = architecture == "gemma3" ? Lookup(kSandwichNorm, name) : Lookup(kPreNorm, name);
  if (mapping == nullptr || !IsNumber(index) || (ending != "weight" && ending != "bias")) return std::string(gguf_name);
  return fmt::format("model.layers.{}.{}.{}", index, mapping->canonical, ending);
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
