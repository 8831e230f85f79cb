// Qwen2 and Qwen2.5: Llama's layer with biases on q, k and v.
#include "models/architectures.h"

namespace deepinfer::models {
namespace {

Result<DecoderConfig> FromHf(const formats::HfConfig& config) {
  DI_ASSIGN_OR_RETURN(DecoderConfig c, ReadHf(config, "qwen2", {}));
  const formats::ConfigNode node = config.text();
  DI_RETURN_IF_ERROR(RequireFullLayers(node));
  DI_RETURN_IF_ERROR(node.RequiredInt("num_key_value_heads"));
  DI_ASSIGN_OR_RETURN(c.rope, ReadHfRope(node, c, 10000));
  c.qkv_bias = true;
  SetFullLayers(&c);
  return c;
}

Result<DecoderConfig> FromGguf(const formats::Checkpoint& checkpoint) {
  DI_ASSIGN_OR_RETURN(DecoderConfig c, ReadGguf(checkpoint, "qwen2"));
  DI_RETURN_IF_ERROR(RequireFullLayers(*checkpoint.gguf(), "qwen2"));
  c.qkv_bias = true;
  SetFullLayers(&c);
  return c;
}

}  // namespace

const Architecture kQwen2 = {"qwen2",   {"Qwen2ForCausalLM"},
                             {"qwen2"}, FromHf,
                             FromGguf,  [](LayerRecorder& layer) { return PreNormLayer(layer, /*qk_norm=*/false); }};

}  // namespace deepinfer::models
