// Records one repeated layer of a decoder as a function of its own: the pieces that architectures are put together
// from.
//
// The function takes what changes from layer to layer and from step to step (`x`, the K and V caches, weights) and what
// a step computes once (SharedValues). Weights become inputs when they are first used, so the recorded function is
// also the list of the weights a layer reads. The config is that of one rank (models/tensor_parallel.h). Errors are
// kept by the builder. Not thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "models/decoder_config.h"
#include "models/layers/step_io.h"
#include "models/model.h"

namespace deepinfer::models {

// Computed once per step, passed to every layer.
struct SharedValues {
  ir::Value cos, sin;       // f32 [T, rotated pairs], those of the layer's kind
  ir::Value block, offset;  // i32 [T]: where the token's K and V go
  ir::Value block_tables, query_start, positions;
};

class LayerRecorder {
 public:
  // The type of a weight, by its name within the layer and the shape it must have.
  using WeightTypes = std::function<ir::Type(const WeightSpec&)>;

  LayerRecorder(ir::Builder* builder, const DecoderConfig& config, const StepShape& shape, LayerKind kind,
                WeightTypes types);

  ir::Value x() const { return x_; }  // [T, hidden]
  // RMS norm over the last dimension.
  ir::Value Norm(ir::Value x, const std::string& name);
  // Projections, rotation, the K and V writes, attention, output projection: [T, hidden] to [T, hidden].
  // With `qk_norm`, each head of q and k is normalised before it is rotated.
  ir::Value Attention(ir::Value x, bool qk_norm);
  // down(activation(gate(x)) * up(x)).
  ir::Value Mlp(ir::Value x);
  // The sum of what the most probable experts of a token give, weighted; each is such a feed-forward part. One rank.
  ir::Value Experts(ir::Value x);
  ir::Value Add(ir::Value a, ir::Value b) { return b_->Emit(ir::Op::kAdd, {a, b}); }

  // In order of first use, which is the order of the function's last inputs. Names are within the layer.
  const std::vector<WeightSpec>& weights() const { return weights_; }

 private:
  ir::Value Weight(const std::string& name, std::vector<int64_t> shape, Split split);
  // The outputs, and so the bias, are divided among ranks as `split` says.
  ir::Value Linear(ir::Value x, const std::string& name, int64_t outputs, int64_t inputs, bool bias, Split split);
  // The inputs are: ranks add up their products. Sums stay f32 until the bias is on, as within one rank.
  ir::Value SumLinear(ir::Value x, const std::string& name, int64_t outputs, int64_t inputs, bool bias);
  ir::Value Heads(ir::Value x, int64_t heads);
  void Store(ir::Value cache, ir::Value scales, ir::Value rows);

  ir::Builder* b_;
  const DecoderConfig& config_;
  const StepShape& shape_;
  LayerKind kind_;
  WeightTypes types_;
  std::vector<WeightSpec> weights_;
  ir::Value x_;
  KvViews kv_;
  SharedValues shared_;
};

// One architecture's layer: records ops and returns the new [T, hidden].
using LayerFunction = ir::Value (*)(LayerRecorder& layer);

}  // namespace deepinfer::models
