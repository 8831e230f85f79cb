#include "models/layers/layer_recorder.h"

#include "ir/collective.h"

namespace deepinfer::models {

using ir::InputKind;
using ir::Op;
using ir::Type;
using ir::Value;

LayerRecorder::LayerRecorder(ir::Builder* builder, const DecoderConfig& config, const StepShape& shape, LayerKind kind,
                             WeightTypes types)
    : b_(builder), config_(config), shape_(shape), kind_(kind), types_(std::move(types)) {
  const auto argument = [this](const char* name, DType dtype, std::vector<ir::Dim> dims) {
    return b_->Input(name, InputKind::kArgument, Type(dtype, std::move(dims)));
  };
  const ir::Dim tokens = Tokens(shape);
  const RopeConfig& rope = kind == LayerKind::kSliding ? config.rope_sliding : config.rope;
  x_ = argument("x", shape.activations, {tokens, config.hidden});
  shared_.cos = argument("cos", DType::kF32, {tokens, rope.dim / 2});
  shared_.sin = argument("sin", DType::kF32, {tokens, rope.dim / 2});
  shared_.block = argument("block", DType::kI32, {tokens});
  shared_.offset = argument("offset", DType::kI32, {tokens});
  shared_.block_tables = argument("block_tables", DType::kI32, {Requests(shape), shape.max_blocks});
  shared_.query_start = argument("query_start", DType::kI32, {shape.requests + 1});
  shared_.positions = argument("positions", DType::kI32, {tokens});
  const Type cache = KvType(shape, config.kv_heads, config.head_dim);
  kv_.k = b_->Input("k_cache", InputKind::kState, cache);
  kv_.v = b_->Input("v_cache", InputKind::kState, cache);
  if (!KvScales(shape.kv)) return;
  kv_.k_scales = b_->Input("k_scales", InputKind::kState, KvScalesType(shape, config.kv_heads));
  kv_.v_scales = b_->Input("v_scales", InputKind::kState, KvScalesType(shape, config.kv_heads));
}

Value LayerRecorder::Weight(const std::string& name, std::vector<int64_t> shape, Split split) {
  weights_.push_back({name, std::move(shape), split});
  return b_->Input(name, InputKind::kWeight, types_(weights_.back()));
}

Value LayerRecorder::Linear(Value x, const std::string& name, int64_t outputs, int64_t inputs, bool bias, Split split) {
  std::vector<Value> operands = {x, Weight(name + ".weight", {outputs, inputs}, split)};
  if (bias) operands.push_back(Weight(name + ".bias", {outputs}, split == Split::kInputs ? Split::kNone : split));
  return b_->Emit(Op::kLinear, operands);
}

Value LayerRecorder::SumLinear(Value x, const std::string& name, int64_t outputs, int64_t inputs, bool bias) {
  if (shape_.ranks == 1) return Linear(x, name, outputs, inputs, bias, Split::kInputs);
  const Value weight = Weight(name + ".weight", {outputs, inputs}, Split::kInputs);
  const Value term = b_->Emit(Op::kLinear, {x, weight}, {{"dtype", std::string("f32")}});
  Value sum = b_->Emit(Op::kAllReduce, {term}, ir::OverAllRanks(shape_.ranks, {{"kind", std::string("sum")}}));
  if (bias) {
    const Value wide = b_->Convert(Weight(name + ".bias", {outputs}, Split::kNone), DType::kF32);
    sum = Add(sum, b_->Broadcast(wide, {Tokens(shape_), outputs}, {1}));
  }
  return b_->Convert(sum, shape_.activations);
}

Value LayerRecorder::Norm(Value x, const std::string& name) {
  const int64_t width = x.valid() ? b_->TypeOf(x).dims.back().size : config_.hidden;
  return b_->Emit(Op::kRmsNorm, {x, Weight(name + ".weight", {width}, Split::kNone)},
                  {{"eps", config_.eps}, {"offset", config_.norm_offset}});
}

Value LayerRecorder::Heads(Value x, int64_t heads) {
  return b_->Reshape(x, {Tokens(shape_), heads, config_.head_dim});
}

// Plain writes, dims 0 and 2 of [N, heads, B, width].
void LayerRecorder::Store(Value cache, Value scales, Value rows) {
  const auto put = [this](Value state, Value what) {
    b_->IndexPut(state, {shared_.block, shared_.offset}, what, {0, 2});
  };
  if (SizeOf(shape_.kv) > 1) return put(cache, b_->Convert(rows, shape_.kv));
  const std::vector<Value> codes =
      b_->EmitAll(Op::kQuantiseRows, {rows}, {{"dtype", std::string(ToString(shape_.kv))}});
  if (codes.empty()) return;
  put(cache, codes[0]);
  if (scales.valid()) put(scales, codes[1]);
}

Value LayerRecorder::Attention(Value x, bool qk_norm) {
  const DecoderConfig& c = config_;
  Value q = Heads(Linear(x, "self_attn.q_proj", c.q_width(), c.hidden, c.qkv_bias, Split::kOutputs), c.heads);
  Value k = Heads(Linear(x, "self_attn.k_proj", c.kv_width(), c.hidden, c.qkv_bias, Split::kKvOutputs), c.kv_heads);
  const Value v =
      Heads(Linear(x, "self_attn.v_proj", c.kv_width(), c.hidden, c.qkv_bias, Split::kKvOutputs), c.kv_heads);
  if (qk_norm) {
    q = Norm(q, "self_attn.q_norm");
    k = Norm(k, "self_attn.k_norm");
  }
  const ir::AttrMap pairs = {{"interleaved", int64_t{c.rope_interleaved}}};
  q = b_->Emit(Op::kRope, {q, shared_.cos, shared_.sin}, pairs);
  k = b_->Emit(Op::kRope, {k, shared_.cos, shared_.sin}, pairs);
  Store(kv_.k, kv_.k_scales, k);
  Store(kv_.v, kv_.v_scales, v);
  std::vector<Value> operands = {q, kv_.k, kv_.v, shared_.block_tables, shared_.query_start, shared_.positions};
  if (kv_.k_scales.valid()) operands.insert(operands.end(), {kv_.k_scales, kv_.v_scales});
  const Value mixed = b_->Emit(Op::kPagedAttention, operands,
                               {{"scale", c.attention_scale},
                                {"window", kind_ == LayerKind::kSliding ? c.window : int64_t{0}},
                                {"softcap", 0.0},
                                {"uniform", int64_t{shape_.phase == Phase::kDecode}}});
  return SumLinear(b_->Reshape(mixed, {Tokens(shape_), c.q_width()}), "self_attn.o_proj", c.hidden, c.q_width(),
                   c.o_bias);
}

Value LayerRecorder::Mlp(Value x) {
  const DecoderConfig& c = config_;
  const Value gate = Linear(x, "mlp.gate_proj", c.ffn, c.hidden, c.mlp_bias, Split::kOutputs);
  const Value up = Linear(x, "mlp.up_proj", c.ffn, c.hidden, c.mlp_bias, Split::kOutputs);
  const Value hidden = b_->Emit(Op::kGlu, {gate, up}, {{"activation", c.activation}});
  return SumLinear(hidden, "mlp.down_proj", c.hidden, c.ffn, c.mlp_bias);
}

Value LayerRecorder::Experts(Value x) {
  const DecoderConfig& c = config_;
  const ExpertConfig& e = c.experts;
  const Value router = Weight("mlp.gate.weight", {e.count, c.hidden}, Split::kNone);
  const Value logits = b_->Emit(Op::kLinear, {x, router}, {{"dtype", std::string("f32")}});
  const Value gate = Weight("mlp.experts.gate_proj.weight", {e.count * e.ffn, c.hidden}, Split::kNone);
  const Value up = Weight("mlp.experts.up_proj.weight", {e.count * e.ffn, c.hidden}, Split::kNone);
  const Value down = Weight("mlp.experts.down_proj.weight", {e.count * c.hidden, e.ffn}, Split::kNone);
  return b_->Emit(Op::kMoe, {x, logits, gate, up, down},
                  {{"activation", c.activation}, {"top_k", e.used}, {"normalise", int64_t{e.normalise}}});
}

}  // namespace deepinfer::models
