// Qwen3 with experts in every feed-forward part: Qwen3's attention, and of each layer's experts the most probable few.
// Source: the configuration and implementation of Qwen3MoeForCausalLM; GGUF's architecture qwen3moe.
#include "models/architectures.h"

namespace deepinfer::models {
namespace {

constexpr char kName[] = "qwen3moe";

Result<DecoderConfig> FromHf(const formats::HfConfig& config) {
  HfDefaults defaults;
  defaults.experts = true;
  DI_ASSIGN_OR_RETURN(DecoderConfig c, ReadHf(config, kName, defaults));
  const formats::ConfigNode node = config.text();
  DI_RETURN_IF_ERROR(RequireFullLayers(node));
  DI_RETURN_IF_ERROR(node.RequiredInt("num_key_value_heads"));
  // Layers that are dense.
  DI_RETURN_IF_ERROR(RefuseField(node, "decoder_sparse_step", 1));
  DI_RETURN_IF_ERROR(RefuseField(node, "mlp_only_layers", 0));
  DI_ASSIGN_OR_RETURN(c.experts.count, node.RequiredInt("num_experts"));
  DI_ASSIGN_OR_RETURN(c.experts.used, node.RequiredInt("num_experts_per_tok"));
  DI_ASSIGN_OR_RETURN(c.experts.ffn, node.RequiredInt("moe_intermediate_size"));
  DI_ASSIGN_OR_RETURN(c.experts.normalise, node.OptionalBool("norm_topk_prob", false));
  DI_ASSIGN_OR_RETURN(c.rope, ReadHfRope(node, c, 10000));
  DI_ASSIGN_OR_RETURN(c.qkv_bias, node.OptionalBool("attention_bias", false));
  c.o_bias = c.qkv_bias;
  SetFullLayers(&c);
  return c;
}

Result<DecoderConfig> FromGguf(const formats::Checkpoint& checkpoint) {
  DI_ASSIGN_OR_RETURN(DecoderConfig c, ReadGguf(checkpoint, kName, /*experts=*/true));
  DI_RETURN_IF_ERROR(RequireFullLayers(*checkpoint.gguf(), kName));
  SetFullLayers(&c);
  return c;
}

ir::Value Layer(LayerRecorder& layer) {
  const ir::Value x = layer.Add(layer.x(), layer.Attention(layer.Norm(layer.x(), "input_layernorm"), /*qk_norm=*/true));
  return layer.Add(x, layer.Experts(layer.Norm(x, "post_attention_layernorm")));
}

}  // namespace

const Architecture kQwen3Moe = {kName, {"Qwen3MoeForCausalLM"}, {"qwen3_moe"}, FromHf, FromGguf, Layer};

}  // namespace deepinfer::models
