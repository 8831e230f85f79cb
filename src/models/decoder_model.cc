#include "models/decoder_model.h"

#include <algorithm>
#include <map>

#include "ir/collective.h"
#include "models/layers/step_io.h"
#include "models/tensor_parallel.h"

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

// Records one step of one rank, whose config is given.
class StepRecorder {
 public:
  StepRecorder(const DecoderModel& model, const DecoderConfig& config, const StepShape& shape,
               const WeightTable& weights)
      : model_(model), config_(config), shape_(shape), weights_(weights), b_(module_.Entry()) {}

  Result<ir::Module> Record() {
    Declare();
    Value x = Embed(TokenIds(b_, in_, shape_));
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
    in_ = DeclareMetadata(module_, b_, shape_, config_.vocab);
    for (const WeightSpec& weight : model_.weights_) {
      inputs_[weight.name] = b_.Input(weight.name, InputKind::kWeight, *weights_.Find(weight.name));
    }
    for (int64_t i = 0; i < config_.layers; ++i) {
      kv_.push_back(DeclareKv(b_, shape_, i, config_.kv_heads, config_.head_dim));
    }
    DeclareTokenStore(b_, shape_, &in_);
  }

  bool IsShard(Value table) { return table.valid() && b_.TypeOf(table).dims[0].size != config_.vocab; }

  // Where ranks share the vocabulary, the one that has a token's row gives it and the others zeros.
  Value Embed(Value ids) {
    const Value table = inputs_.at(kEmbedding);
    const ir::AttrMap attrs = {{"dtype", std::string(ToString(shape_.activations))},
                               {"scale", config_.embedding_scale}};
    if (!IsShard(table)) return b_.Emit(Op::kEmbedding, {table, ids}, attrs);
    const int64_t size = b_.TypeOf(table).dims[0].size;
    const Type ids_type = b_.TypeOf(ids);
    const Value first = b_.WithScalar(Op::kMul, in_.rank, static_cast<double>(size));
    const Value index = b_.Emit(Op::kSub, {ids, b_.Broadcast(first, ids_type.dims, {})});
    const Value rows = b_.Emit(Op::kEmbedding, {table, index}, attrs);  // clamps
    const Value inside = b_.Emit(Op::kAnd, {b_.Compare(index, b_.Splat(ids_type, 0), "ge"),
                                            b_.Compare(index, b_.Splat(ids_type, static_cast<double>(size)), "lt")});
    const Type type = b_.TypeOf(rows);
    const Value own = b_.Emit(Op::kSelect, {b_.Broadcast(inside, type.dims, {0}), rows, b_.Splat(type, 0)});
    return b_.Emit(Op::kAllReduce, {own}, ir::OverAllRanks(shape_.ranks, {{"kind", std::string("sum")}}));
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
    if (kv.k_scales.valid()) operands.insert(operands.end(), {kv.k_scales, kv.v_scales});
    for (const WeightSpec& weight : model_.layer_weights(kind)) {
      operands.push_back(inputs_.at(LayerWeightName(index, weight.name)));
    }
    const std::vector<Value> results = b_.Call(LayerFunctionName(index, kind), operands);
    return results.empty() ? Value{} : results[0];
  }

  // Only the sampled rows are normalised and projected. Every rank gets all logits, so that all sample the same token.
  void Head(Value x) {
    const Value rows = SampledRows(b_, in_, shape_, x);
    const Value normed =
        b_.Emit(Op::kRmsNorm, {rows, inputs_.at(kFinalNorm)}, {{"eps", config_.eps}, {"offset", config_.norm_offset}});
    const Value table = inputs_.at(config_.tied ? kEmbedding : kHead);
    Value logits = b_.Emit(Op::kLinear, {normed, table}, {{"dtype", std::string("f32")}});
    if (IsShard(table)) {
      logits = b_.Emit(Op::kAllGather, {logits}, ir::OverAllRanks(shape_.ranks, {{"dim", int64_t{1}}}));
    }
    SampleAndCommit(b_, in_, shape_, logits);
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
  model->weights_.push_back({kEmbedding, {c.vocab, c.hidden}, Split::kVocabulary});
  if (c.rope_factors) model->weights_.push_back({kRopeFactors, {c.rope.dim / 2}});
  for (int64_t i = 0; i < c.layers; ++i) {
    const LayerKind kind = c.layer_kinds[static_cast<size_t>(i)];
    std::vector<WeightSpec>& of_layer = model->layer_weights_[static_cast<size_t>(kind)];
    if (of_layer.empty()) {
      DI_ASSIGN_OR_RETURN(of_layer, model->LayerWeights(kind));
    }
    for (const WeightSpec& weight : of_layer)
      model->weights_.push_back({LayerWeightName(i, weight.name), weight.shape, weight.split});
  }
  model->weights_.push_back({kFinalNorm, {c.hidden}});
  if (!c.tied) model->weights_.push_back({kHead, {c.vocab, c.hidden}, Split::kVocabulary});
  return model;
}

Result<std::vector<WeightShard>> DecoderModel::Shards(int64_t ranks) const {
  DI_RETURN_IF_ERROR(ConfigOfRank(config_, ranks));
  std::vector<WeightShard> shards;
  shards.reserve(weights_.size());
  for (const WeightSpec& weight : weights_) shards.push_back(ShardOf(weight.split, config_, ranks));
  return shards;
}

std::vector<StateSpec> DecoderModel::States(DType kv, int64_t ranks) const {
  const int64_t kv_heads = std::max<int64_t>(1, config_.kv_heads / ranks);
  std::vector<StateSpec> states;
  for (int64_t i = 0; i < config_.layers; ++i) {
    const auto add = [&](const std::string& pool, int64_t width, DType dtype) {
      for (const char* part : {"k", "v"}) {
        StateSpec state;
        state.buffer = fmt::format("{}.{}", pool, i);
        state.name = fmt::format("{}.{}", state.buffer, part);
        state.pool = pool;
        state.row = {kv_heads, width};
        state.dtype = dtype;
        states.push_back(std::move(state));
      }
    };
    add("kv", config_.head_dim, kv);
    if (const auto scales = KvScales(kv)) add("kv_scales", 1, *scales);
  }
  return states;
}

Status DecoderModel::CheckWeights(const WeightTable& weights, int64_t ranks) const {
  for (const WeightSpec& weight : weights_) {
    const Type* type = weights.Find(weight.name);
    if (type == nullptr)
      return MakeError(ErrorCode::kNotFound, "weight " + weight.name, "the model needs it; it is missing");
    const std::vector<int64_t> shape = ShardOf(weight.split, config_, ranks).ShapeOf(weight.shape);
    if (type->Shape() != shape) {
      return MakeError(ErrorCode::kInvalidArgument, "weight " + weight.name, "its shape is {}; the config wants {}",
                       FormatShape(type->Shape()), FormatShape(shape));
    }
  }
  return {};
}

Result<ir::Module> DecoderModel::Record(const StepShape& shape, const WeightTable& weights) const {
  DI_RETURN_IF_ERROR(CheckShape(shape));
  DI_ASSIGN_OR_RETURN(const DecoderConfig config, ConfigOfRank(config_, shape.ranks));
  DI_RETURN_IF_ERROR(CheckWeights(weights, shape.ranks));
  return StepRecorder(*this, config, shape, weights).Record();
}

}  // namespace deepinfer::models
