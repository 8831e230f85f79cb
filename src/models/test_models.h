// Small models and step shapes for the tests of this room. Pure; thread-safe.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "formats/hf_config.h"
#include "models/decoder_model.h"
#include "models/registry.h"

namespace deepinfer::models {

// A config.json of `architecture` with small sizes; `extra` is merged into it (null removes a field).
inline nlohmann::json SmallConfig(const std::string& architecture, const nlohmann::json& extra = {}) {
  nlohmann::json json = {{"architectures", {architecture}},
                         {"hidden_size", 64},
                         {"intermediate_size", 128},
                         {"num_hidden_layers", 3},
                         {"num_attention_heads", 4},
                         {"num_key_value_heads", 2},
                         {"vocab_size", 320},
                         {"max_position_embeddings", 512},
                         {"head_dim", 16}};
  if (architecture == "Gemma3ForCausalLM") json.update({{"sliding_window", 16}, {"query_pre_attn_scalar", 16}});
  if (extra.is_object()) json.merge_patch(extra);
  return json;
}

inline Result<std::unique_ptr<Model>> CreateFromJson(const nlohmann::json& json) {
  auto config = formats::HfConfig::Parse(json.dump(), "", "folder");
  if (!config) return tl::unexpected(config.error());
  return CreateModel(*config);
}

// The config of a model that must be accepted.
inline DecoderConfig ConfigOf(const nlohmann::json& json) {
  auto model = CreateFromJson(json);
  if (!model) {
    ADD_FAILURE() << model.error().ToString();
    return {};
  }
  return dynamic_cast<DecoderModel&>(**model).config();
}

inline std::string ErrorOf(const nlohmann::json& json) {
  auto model = CreateFromJson(json);
  return model ? "" : model.error().ToString();
}

inline StepShape SmallShape(Phase phase) {
  StepShape shape;
  shape.phase = phase;
  shape.tokens = phase == Phase::kPrefill ? 16 : 4;
  shape.rows = 4;
  shape.requests = 4;
  shape.block_size = 8;
  shape.blocks = 9;
  shape.max_blocks = 4;
  shape.slots = 6;
  return shape;
}

inline WeightTable PlainWeights(const Model& model, Encoding encoding = Encoding::kF32) {
  WeightTable table;
  for (const WeightSpec& weight : model.Weights()) {
    table.Add(weight.name, ir::Type::Weight(weight.shape.size() == 1 ? Encoding::kF32 : encoding, weight.shape));
  }
  return table;
}

}  // namespace deepinfer::models
