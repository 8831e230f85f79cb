// The model of every decoder-only architecture: embedding, layers, head. What differs is the config and the layer
// function.
//
// Layers are outlined: one function per kind of layer and combination of weight types, named layer_0, layer_1, ... in
// order of first use, so that the canonical text does not depend on how many layers there are. Immutable: thread-safe.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "models/layers/layer_recorder.h"
#include "models/model.h"

namespace deepinfer::models {

class DecoderModel final : public Model {
 public:
  // Fails if the config is one that the layer cannot be recorded from. `where` names the file it came from.
  static Result<std::unique_ptr<DecoderModel>> Create(DecoderConfig config, LayerFunction layer,
                                                      const std::string& where);

  const ModelInfo& info() const override { return info_; }
  const DecoderConfig& config() const { return config_; }
  const std::vector<WeightSpec>& Weights() const override { return weights_; }
  Result<std::vector<WeightShard>> Shards(int64_t ranks) const override;
  std::vector<StateSpec> States(DType kv, int64_t ranks) const override;
  Result<ir::Module> Record(const StepShape& shape, const WeightTable& weights) const override;

 private:
  DecoderModel(DecoderConfig config, LayerFunction layer);
  Result<std::vector<WeightSpec>> LayerWeights(LayerKind kind) const;
  const std::vector<WeightSpec>& layer_weights(LayerKind kind) const {
    return layer_weights_[static_cast<size_t>(kind)];
  }
  Status CheckWeights(const WeightTable& weights, int64_t ranks) const;

  friend class StepRecorder;
  DecoderConfig config_;
  LayerFunction layer_;
  ModelInfo info_;
  std::array<std::vector<WeightSpec>, 2> layer_weights_;  // by LayerKind; empty for a kind that does not occur
  std::vector<WeightSpec> weights_;
};

// "model.layers.3." + name.
std::string LayerWeightName(int64_t layer, const std::string& name);

}  // namespace deepinfer::models
