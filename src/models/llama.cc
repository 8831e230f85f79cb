// Llama: pre-norm layers, optional biases, llama3 rope scaling (in GGUF files as a tensor of factors).
#include "models/architectures.h"

namespace deepinfer::models {
namespace {

Result<DecoderConfig> FromHf(const formats::HfConfig& config) {
  DI_ASSIGN_OR_RETURN(DecoderConfig c, ReadHf(config, "llama", {}));
  const formats::ConfigNode node = config.text();
  DI_RETURN_IF_ERROR(RequireFullLayers(node));
  DI_RETURN_IF_ERROR(RefuseField(node, "sliding_window", 0));
  DI_ASSIGN_OR_RETURN(c.rope, ReadHfRope(node, c, 10000));
  DI_ASSIGN_OR_RETURN(c.qkv_bias, node.OptionalBool("attention_bias", false));
  DI_ASSIGN_OR_RETURN(c.mlp_bias, node.OptionalBool("mlp_bias", false));
  c.o_bias = c.qkv_bias;
  SetFullLayers(&c);
  return c;
}

Result<DecoderConfig> FromGguf(const formats::Checkpoint& checkpoint) {
  DI_ASSIGN_OR_RETURN(DecoderConfig c, ReadGguf(checkpoint, "llama"));
  DI_RETURN_IF_ERROR(RequireFullLayers(*checkpoint.gguf(), "llama"));
  c.rope_interleaved = true;
  SetFullLayers(&c);
  return c;
}

}  // namespace

const Architecture kLlama = {"llama",   {"LlamaForCausalLM"},
                             {"llama"}, FromHf,
                             FromGguf,  [](LayerRecorder& layer) { return PreNormLayer(layer, /*qk_norm=*/false); }};

}  // namespace deepinfer::models
