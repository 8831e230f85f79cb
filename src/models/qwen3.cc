// Qwen3 (dense): Llama's layer with a norm on each head of q and k.
#include "models/architectures.h"

namespace deepinfer::models {
namespace {

Result<DecoderConfig> FromHf(const formats::HfConfig& config) {
  HfDefaults defaults;
  defaults.head_dim = 128;
  DI_ASSIGN_OR_RETURN(DecoderConfig c, ReadHf(config, "qwen3", defaults));
  const formats::ConfigNode node = config.text();
  DI_RETURN_IF_ERROR(RequireFullLayers(node));
  DI_RETURN_IF_ERROR(node.RequiredInt("num_key_value_heads"));
  DI_ASSIGN_OR_RETURN(c.rope, ReadHfRope(node, c, 10000));
  DI_ASSIGN_OR_RETURN(c.qkv_bias, node.OptionalBool("attention_bias", false));
  c.o_bias = c.qkv_bias;
  SetFullLayers(&c);
  return c;
}

Result<DecoderConfig> FromGguf(const formats::Checkpoint& checkpoint) {
  DI_ASSIGN_OR_RETURN(DecoderConfig c, ReadGguf(checkpoint, "qwen3"));
  DI_RETURN_IF_ERROR(RequireFullLayers(*checkpoint.gguf(), "qwen3"));
  SetFullLayers(&c);
  return c;
}

}  // namespace

const Architecture kQwen3 = {"qwen3",   {"Qwen3ForCausalLM"},
                             {"qwen3"}, FromHf,
                             FromGguf,  [](LayerRecorder& layer) { return PreNormLayer(layer, /*qk_norm=*/true); }};

}  // namespace deepinfer::models
