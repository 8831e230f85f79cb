// The architectures: each file <name>.cc holds its config and its layer, and one row of the table in registry.cc lists
// it.
//
// Adding one: write <name>.cc, declare its row here, list it in registry.cc. Pure; thread-safe.
#pragma once

#include <string_view>
#include <vector>

#include "models/layers/layer_recorder.h"

namespace deepinfer::models {

struct Architecture {
  const char* name;  // also the GGUF general.architecture
  std::vector<std::string_view> hf_architectures;
  std::vector<std::string_view> hf_model_types;  // of folders that name no architecture
  Result<DecoderConfig> (*from_hf)(const formats::HfConfig& config);
  Result<DecoderConfig> (*from_gguf)(const formats::Checkpoint& checkpoint);
  LayerFunction layer;
};

extern const Architecture kLlama;
extern const Architecture kQwen2;
extern const Architecture kQwen3;
extern const Architecture kQwen3Moe;
extern const Architecture kGemma3;

// For architectures without sliding layers: fails if the config has any.
Status RequireFullLayers(const formats::ConfigNode& node);
Status RequireFullLayers(const formats::GgufFile& file, const std::string& architecture);

// norm, attention, add; norm, mlp, add.
ir::Value PreNormLayer(LayerRecorder& layer, bool qk_norm);

}  // namespace deepinfer::models
