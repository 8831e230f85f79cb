#include "models/decoder_model.h"

#include <algorithm>
#include <map>

#include "models/layers/step_io.h"

namespace deepinfer::models {

using ir::Builder;
using ir::InputKind;
using ir::Op;
using ir::Type;
using ir::Value;

namespace {

constexpr char kEmbedding[] = "model.embed_tokens.weight";
constexpr char kFinalNorm[] = "model.norm.weight";
constexpr char kHead[] = "lm_head.weight";
constexpr char kRopeFactors[] = "rope_freqs.weight";

std::string FormatShape(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

}  // namespace

std::string LayerWeightName(int64_t layer, const std::string& name) {
  return fmt::format("model.layers.{}.{}", layer, name);
}

// Records one step.
class StepRecorder {
 public:
  StepRecorder(const DecoderModel& model, const StepShape& shape, const WeightTable& weights)
      : model_(model), config_(model.config_), shape_(shape), weights_(weights), b_(module_.Entry()) {}

  Result<ir::Module> Record() {
    Declare();
    Value x = b_.Emit(Op::kEmbedding, {inputs_.at(kEmbedding), TokenIds(b_, in_, shape_)},
                      {{"dtype", std::string(ToString(shape_.activations))}, {"scale", config_.embedding_scale}});
    const std::vector<Value> slot =
        b_.EmitAll(Op::kPagedSlotIndices, {in_.slots}, {{"block_size", shape_.block_size}, {"blocks", shape_.blocks}});
    if (slot.size() == 2) {
      for (int64_t i = 0; i < config_.layers; ++i) x = Layer(i, x, slot[0], slot[1]);
      Head(x);
    }
    return module_.Finish();
  }

 private:
  // Metadata, weights, states: the order of the graph's inputs.
  void Declare() {
    in_ = DeclareMetadata(module_, b_, shape_);
    for (const WeightSpec& weight : model_.weights_) {
      inputs_[weight.name] = b_.Input(weight.name, InputKind::kWeight, *weights_.Find(weight.name));
    }
    for (int64_t i = 0; i < config_.layers; ++i) {
      kv_.push_back(DeclareKv(b_, shape_, i, config_.kv_heads, config_.head_dim));
    }
    DeclareTokenStore(b_, shape_, &in_);
  }

  // cos and sin of a kind of layer, recorded when first needed.
  const std::vector<Value>& RopeTable(LayerKind kind) {
    std::vector<Value>& table = rope_[static_cast<size_t>(kind)];
    if (!table.empty()) return table;
    const RopeFrequencies rope = ComputeRope(kind == LayerKind::kSliding ? config_.rope_sliding : config_.rope);
    Value inverse = b_.ConstantF32(rope.inverse);
    if (config_.rope_factors) {
      inverse = b_.Emit(Op::kDiv, {inverse, b_.Convert(inputs_.at(kRopeFactors), DType::kF32)});
    }
    table = b_.EmitAll(Op::kRopeTable, {in_.positions, inverse}, {{"mscale", rope.attention_factor}});
    if (table.empty()) table.resize(2);
    return table;
  }

  // The function for a layer's kind and the types of its weights.
  std::string LayerFunctionName(int64_t index, LayerKind kind) {
    std::string key = fmt::format("{}", static_cast<int>(kind));
    for (const WeightSpec& weight : model_.layer_weights(kind)) {
      key += ' ' + ToString(*weights_.Find(LayerWeightName(index, weight.name)));
    }
    const auto [it, is_new] = functions_.emplace(key, fmt::format("layer_{}", functions_.size()));
    if (is_new) {
      Builder body = module_.Function(it->second);
      LayerRecorder layer(&body, config_, shape_, kind, [&](const WeightSpec& weight) {
        return *weights_.Find(LayerWeightName(index, weight.name));
      });
      body.Output("x", model_.layer_(layer));
    }
    return it->second;
  }

  Value Layer(int64_t index, Value x, Value block, Value offset) {
    const LayerKind kind = config_.layer_kinds[static_cast<size_t>(index)];
    const std::vector<Value>& rope = RopeTable(kind);
    const KvViews& kv = kv_[static_cast<size_t>(index)];
    // The order of LayerRecorder's inputs.
    std::vector<Value> operands = {
        x, rope[0], rope[1], block, offset, in_.block_tables, in_.query_start, in_.positions, kv.k, kv.v};
    for (const WeightSpec& weight : model_.layer_weights(kind)) {
      operands.push_back(inputs_.at(LayerWeightName(index, weight.name)));
    }
    const std::vector<Value> results = b_.Call(LayerFunctionName(index, kind), operands);
    return results.empty() ? Value{} : results[0];
  }

  // Only the sampled rows are normalised and projected.
  void Head(Value x) {
    const Value rows = SampledRows(b_, in_, shape_, x);
    const Value normed =
        b_.Emit(Op::kRmsNorm, {rows, inputs_.at(kFinalNorm)}, {{"eps", config_.eps}, {"offset", config_.norm_offset}});
    const Value table = inputs_.at(config_.tied ? kEmbedding : kHead);
    SampleAndCommit(b_, in_, shape_, b_.Emit(Op::kLinear, {normed, table}, {{"dtype", std::string("f32")}}));
  }

  const DecoderModel& model_;
  const DecoderConfig& config_;
  const StepShape& shape_;
  const WeightTable& weights_;
  ir::ModuleBuilder module_;
  Builder b_;
  StepInputs in_;
  std::map<std::string, Value> inputs_;  // weights
  std::vector<KvViews> kv_;
  std::array<std::vector<Value>, 2> rope_;  // by LayerKind
  std::map<std::string, std::string> functions_;
};

DecoderModel::DecoderModel(DecoderConfig config, LayerFunction layer) : config_(std::move(config)), layer_(layer) {
  info_.architecture = config_.architecture;
  info_.vocab_size = config_.vocab;
  info_.max_positions = config_.max_positions;
  info_.num_layers = config_.layers;
  info_.eos_ids = config_.eos_ids;
}

// Records the layer on its own, for its weights.
Result<std::vector<WeightSpec>> DecoderModel::LayerWeights(LayerKind kind) const {
  StepShape shape;
  shape.blocks = shape.max_blocks = shape.slots = 1;
  ir::ModuleBuilder module;
  Builder body = module.Entry("layer");
  LayerRecorder layer(&body, config_, shape, kind,
                      [](const WeightSpec& weight) { return Type::Weight(Encoding::kF32, weight.shape); });
  body.Output("x", layer_(layer));
  DI_RETURN_IF_ERROR(module.Finish());
  return layer.weights();
}

Result<std::unique_ptr<DecoderModel>> DecoderModel::Create(DecoderConfig config, LayerFunction layer,
                                                           const std::string& where) {
  DI_RETURN_IF_ERROR(Validate(config, where));
  std::unique_ptr<DecoderModel> model(new DecoderModel(std::move(config), layer));
  const DecoderConfig& c = model->config_;
  model->weights_.push_back({kEmbedding, {c.vocab, c.hidden}});
  if (c.rope_factors) model->weights_.push_back({kRopeFactors, {c.rope.dim / 2}});
  for (int64_t i = 0; i < c.layers; ++i) {
    const LayerKind kind = c.layer_kinds[static_cast<size_t>(i)];
    std::vector<WeightSpec>& of_layer = model->layer_weights_[static_cast<size_t>(kind)];
    if (of_layer.empty()) {
      DI_ASSIGN_OR_RETURN(of_layer, model->LayerWeights(kind));
    }
    for (const WeightSpec& weight : of_layer)
      model->weights_.push_back({LayerWeightName(i, weight.name), weight.shape});
  }
  model->weights_.push_back({kFinalNorm, {c.hidden}});
  if (!c.tied) model->weights_.push_back({kHead, {c.vocab, c.hidden}});
  return model;
}

std::vector<StateSpec> DecoderModel::States(DType kv) const {
  std::vector<StateSpec> states;
  for (int64_t i = 0; i < config_.layers; ++i) {
    for (const char* part : {"k", "v"}) {
      StateSpec state;
      state.buffer = fmt::format("kv.{}", i);
      state.name = fmt::format("{}.{}", state.buffer, part);
      state.pool = "kv";
      state.row = {config_.kv_heads, config_.head_dim};
      state.dtype = kv;
      states.push_back(std::move(state));
    }
  }
  return states;
}

Status DecoderModel::CheckWeights(const WeightTable& weights) const {
  for (const WeightSpec& weight : weights_) {
    const Type* type = weights.Find(weight.name);
    if (type == nullptr)
      return MakeError(ErrorCode::kNotFound, "weight " + weight.name, "the model needs it; it is missing");
    if (type->Shape() != weight.shape) {
      return MakeError(ErrorCode::kInvalidArgument, "weight " + weight.name, "its shape is {}; the config wants {}",
                       FormatShape(type->Shape()), FormatShape(weight.shape));
    }
  }
  return {};
}

Result<ir::Module> DecoderModel::Record(const StepShape& shape, const WeightTable& weights) const {
  DI_RETURN_IF_ERROR(CheckShape(shape));
  DI_RETURN_IF_ERROR(CheckWeights(weights));
  return StepRecorder(*this, shape, weights).Record();
}

}  // namespace deepinfer::models
