// Gemma 3 (text): sliding and full layers with a rope each, norms before and after both halves, a norm on each head of
// q and k, scaled embeddings, tied head. Of the multimodal checkpoints only the language model is used.
#include <cmath>

#include "models/architectures.h"

namespace deepinfer::models {
namespace {

using formats::ConfigNode;

constexpr double kLocalTheta = 10000;
constexpr double kGlobalTheta = 1000000;
constexpr int64_t kPattern = 6;  // every sixth layer is full
// The 27B model, whose queries are scaled by hidden / heads instead of the head size; GGUF files do not say so.
constexpr int64_t kLayersOf27B = 62;

void SetPattern(int64_t pattern, DecoderConfig* c) {
  SetFullLayers(c);
  for (size_t i = 0; i < c->layer_kinds.size(); ++i) {
    if ((static_cast<int64_t>(i) + 1) % pattern != 0) c->layer_kinds[i] = LayerKind::kSliding;
  }
}

Status ReadLayerTypes(const ConfigNode& node, DecoderConfig* c) {
  DI_ASSIGN_OR_RETURN(const std::vector<std::string> types, node.Strings("layer_types"));
  if (types.empty()) {
    const char* field = node.Has("sliding_window_pattern") ? "sliding_window_pattern" : "_sliding_window_pattern";
    DI_ASSIGN_OR_RETURN(const int64_t pattern, node.OptionalInt(field, kPattern));
    if (pattern < 1) return MakeError(ErrorCode::kInvalidArgument, node.Where(field), "is {}", pattern);
    SetPattern(pattern, c);
  }
  for (const std::string& type : types) {
    if (type != "full_attention" && type != "sliding_attention") {
      return MakeError(ErrorCode::kUnsupported, node.Where("layer_types"),
                       "'{}' is not supported; supported are: full_attention, sliding_attention", type);
    }
    c->layer_kinds.push_back(type == "full_attention" ? LayerKind::kFull : LayerKind::kSliding);
  }
  return {};
}

// New files give a rope per layer type; older ones rope_theta and rope_scaling for full layers, rope_local_base_freq
// for sliding ones.
Status ReadRopes(const ConfigNode& node, DecoderConfig* c) {
  DI_ASSIGN_OR_RETURN(const double global, node.OptionalFloat("rope_theta", kGlobalTheta));
  DI_ASSIGN_OR_RETURN(const double local, node.OptionalFloat("rope_local_base_freq", kLocalTheta));
  DI_ASSIGN_OR_RETURN(std::optional<ConfigNode> full, node.Child("rope_scaling"));
  std::optional<ConfigNode> sliding;
  DI_ASSIGN_OR_RETURN(const std::optional<ConfigNode> parameters, node.Child("rope_parameters"));
  if (parameters) {
    for (const auto& [key, value] : parameters->object().items()) {
      if (key != "full_attention" && key != "sliding_attention") {
        return MakeError(ErrorCode::kUnsupported, parameters->Where(key), "is not a layer type of this architecture");
      }
    }
    DI_ASSIGN_OR_RETURN(sliding, parameters->Child("sliding_attention"));
    if (!full) {
      DI_ASSIGN_OR_RETURN(full, parameters->Child("full_attention"));
    }
  }
  DI_ASSIGN_OR_RETURN(c->rope, ReadHfRopeNode(node, full ? &*full : nullptr, *c, global));
  DI_ASSIGN_OR_RETURN(c->rope_sliding, ReadHfRopeNode(node, sliding ? &*sliding : nullptr, *c, local));
  return {};
}

Result<DecoderConfig> FromHf(const formats::HfConfig& config) {
  // The multimodal configs leave out what equals these.
  const HfDefaults defaults = {.heads = 8,
                               .kv_heads = 4,
                               .head_dim = 256,
                               .vocab = 262208,
                               .max_positions = 131072,
                               .activation = "gelu_pytorch_tanh",
                               .tied = true};
  DI_ASSIGN_OR_RETURN(DecoderConfig c, ReadHf(config, "gemma3", defaults));
  const ConfigNode node = config.text();
  DI_RETURN_IF_ERROR(ReadLayerTypes(node, &c));
  DI_ASSIGN_OR_RETURN(c.window, node.RequiredInt("sliding_window"));
  DI_RETURN_IF_ERROR(ReadRopes(node, &c));
  DI_ASSIGN_OR_RETURN(c.qkv_bias, node.OptionalBool("attention_bias", false));
  c.o_bias = c.qkv_bias;
  DI_ASSIGN_OR_RETURN(const double scalar, node.OptionalFloat("query_pre_attn_scalar", 256));
  c.attention_scale = 1.0 / std::sqrt(scalar);
  c.embedding_scale = std::sqrt(static_cast<double>(c.hidden));
  c.norm_offset = 1;
  return c;
}

Result<DecoderConfig> FromGguf(const formats::Checkpoint& checkpoint) {
  const formats::GgufFile& file = *checkpoint.gguf();
  DI_ASSIGN_OR_RETURN(DecoderConfig c, ReadGguf(checkpoint, "gemma3"));
  DI_ASSIGN_OR_RETURN(c.window, file.RequiredInt("gemma3.attention.sliding_window"));
  DI_ASSIGN_OR_RETURN(const int64_t pattern, file.OptionalInt("gemma3.attention.sliding_window_pattern", kPattern));
  if (pattern < 1) {
    return MakeError(ErrorCode::kInvalidArgument, file.path() + ": gemma3.attention.sliding_window_pattern", "is {}",
                     pattern);
  }
  SetPattern(pattern, &c);
  c.rope_sliding.dim = c.rope.dim;
  DI_ASSIGN_OR_RETURN(c.rope_sliding.theta, file.OptionalFloat("gemma3.rope.freq_base_swa", kLocalTheta));
  if (!file.Has("gemma3.rope.freq_base")) c.rope.theta = kGlobalTheta;
  if (c.layers == kLayersOf27B) {
    c.attention_scale = 1.0 / std::sqrt(static_cast<double>(c.hidden) / static_cast<double>(c.heads));
  }
  c.activation = "gelu_tanh";
  c.embedding_scale = std::sqrt(static_cast<double>(c.hidden));
  return c;
}

ir::Value Layer(LayerRecorder& layer) {
  const ir::Value attention = layer.Attention(layer.Norm(layer.x(), "input_layernorm"), /*qk_norm=*/true);
  const ir::Value x = layer.Add(layer.x(), layer.Norm(attention, "post_attention_layernorm"));
  const ir::Value mlp = layer.Mlp(layer.Norm(x, "pre_feedforward_layernorm"));
  return layer.Add(x, layer.Norm(mlp, "post_feedforward_layernorm"));
}

}  // namespace

const Architecture kGemma3 = {
    "gemma3", {"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"}, {"gemma3_text", "gemma3"}, FromHf, FromGguf,
    Layer};

}  // namespace deepinfer::models
