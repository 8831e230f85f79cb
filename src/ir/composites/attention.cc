// Paged attention, slot arithmetic, and what is written to caches of 8 bits.
#include <limits>
#include <optional>

#include "ir/composites/decompose.h"

namespace deepinfer::ir::internal {
namespace {

struct Shapes {
  Dim tokens;
  Dim requests;
  int64_t heads;    // of K and V
  int64_t group;    // query heads per K/V head
  int64_t width;    // head size
  int64_t context;  // positions that the block table spans
  // Operands that not every attention has.
  std::optional<Value> k_scales, v_scales, sinks;
};

Shapes ShapesOf(Builder& b, const Values& v) {
  const Type& q = b.TypeOf(v[0]);
  const Type& cache = b.TypeOf(v[1]);
  const Type& tables = b.TypeOf(v[3]);
  Shapes s;
  s.tokens = q.dims[0];
  s.requests = tables.dims[0];
  s.heads = cache.dims[1].size;
  s.group = q.dims[1].size / s.heads;
  s.width = q.dims[2].size;
  s.context = tables.dims[1].size * cache.dims[2].size;
  const bool scaled = cache.dtype == DType::kI8;
  if (scaled) s.k_scales = v[6];
  if (scaled) s.v_scales = v[7];
  if (v.size() == (scaled ? 9 : 7)) s.sinks = v.back();
  return s;
}

// cache [N,H,B,D] seen through block_tables [Q,M], as f32 [Q,H,M*B,D]. Negative entries read the null block.
Value GatherPlain(Builder& b, const Shapes& s, Value cache, Value tables) {
  const Type type = b.TypeOf(cache);
  const double last = static_cast<double>(type.dims[0].size) - 1;
  const Value blocks = b.WithScalar(Op::kMin, b.WithScalar(Op::kMax, tables, 0), last);
  const Value gathered = b.Convert(b.Emit(Op::kTake, {cache, blocks}), DType::kF32);  // [Q,M,H,B,D]
  return b.Reshape(b.Transpose(gathered, {0, 2, 1, 3, 4}), {s.requests, s.heads, s.context, type.dims[3]});
}

// The same, multiplied by the scales of its rows or by the one scale of all.
Value GatherCache(Builder& b, const Shapes& s, Value cache, Value tables, const std::optional<Value>& scales,
                  double scale) {
  const Value plain = GatherPlain(b, s, cache, tables);
  if (!scales) return scale == 1 ? plain : b.WithScalar(Op::kMul, plain, scale);
  const Value by_row = b.Reshape(GatherPlain(b, s, *scales, tables), {s.requests, s.heads, s.context});
  return b.Emit(Op::kMul, {plain, b.Broadcast(by_row, b.TypeOf(plain).dims, {0, 1, 2})});
}

Value GatherKeys(Builder& b, const Node& node, const Shapes& s, const Values& v) {
  return GatherCache(b, s, v[1], v[3], s.k_scales, node.Float("k_scale", 1.0));
}

Value GatherValues(Builder& b, const Node& node, const Shapes& s, const Values& v) {
  return GatherCache(b, s, v[2], v[3], s.v_scales, node.Float("v_scale", 1.0));
}

// i1 [T,S]: may the token see the context position?
Value CausalMask(Builder& b, const Node& node, const Shapes& s, Value positions) {
  const std::vector<Dim> dims = {s.tokens, s.context};
  const Value at = b.Iota(Type(DType::kI32, dims), 1);
  const Value own = b.Broadcast(positions, dims, {0});
  Value mask = b.Compare(at, own, "le");
  const int64_t window = node.Int("window");
  if (window > 0) {
    const Value oldest = b.WithScalar(Op::kSub, own, static_cast<double>(window));
    mask = b.Emit(Op::kAnd, {mask, b.Compare(at, oldest, "gt")});
  }
  return mask;
}

Value ScaleScores(Builder& b, const Node& node, Value scores) {
  Value scaled = b.WithScalar(Op::kMul, scores, node.Float("scale", 1.0));
  const double softcap = node.Float("softcap");
  if (softcap > 0) {
    const Value bounded = b.Emit(Op::kTanh, {b.WithScalar(Op::kDiv, scaled, softcap)});
    scaled = b.WithScalar(Op::kMul, bounded, softcap);
  }
  return scaled;
}

struct Softmax {
  Value weights;  // unnormalised, 0 where masked
  Value sum;      // over the last dimension
};

// A sink is one more logit of the head, whose weight goes to no value. sink_dims: where head and place in the group lie
// among the dimensions of the scores.
Softmax MaskedSoftmax(Builder& b, const Shapes& s, Value scores, Value mask, std::vector<int64_t> sink_dims) {
  const Type type = b.TypeOf(scores);
  const int64_t last = type.rank() - 1;
  std::vector<int64_t> leading;
  for (int64_t i = 0; i < last; ++i) leading.push_back(i);
  // A row without any visible position has maximum -1e30, not -inf, so that the subtraction stays a number.
  const Value low = b.Emit(Op::kSelect, {mask, scores, b.Splat(type, -1e30)});
  Value max = b.Reduce(low, "max", {last});
  const Type row_type = b.TypeOf(max);
  Value sink;
  if (s.sinks) {
    sink = b.Broadcast(b.Reshape(*s.sinks, {s.heads, s.group}), row_type.dims, std::move(sink_dims));
    max = b.Emit(Op::kMax, {max, sink});
  }
  const Value exp = b.Emit(Op::kExp, {b.Emit(Op::kSub, {low, b.Broadcast(max, type.dims, leading)})});
  const Value weights = b.Emit(Op::kSelect, {mask, exp, b.Splat(type, 0.0)});
  Value sum = b.Reduce(weights, "sum", {last});
  if (s.sinks) {
    const Value any = b.Reduce(mask, "or", {last});
    const Value own = b.Emit(Op::kExp, {b.Emit(Op::kSub, {sink, max})});
    sum = b.Emit(Op::kAdd, {sum, b.Emit(Op::kSelect, {any, own, b.Splat(row_type, 0.0)})});
  }
  return {weights, sum};
}

// One token per request: scores [T,H,G,S].
Value UniformAttention(Builder& b, const Node& node, const Shapes& s, const Values& v) {
  const Value q = b.Reshape(b.Convert(v[0], DType::kF32), {s.tokens, s.heads, s.group, s.width});
  const Value keys = GatherKeys(b, node, s, v);
  const Value scores = ScaleScores(b, node, b.Dot(q, keys, {0, 1}, {0, 1}, {3}, {3}, DType::kF32));
  const Value visible = CausalMask(b, node, s, v[5]);
  const Softmax softmax = MaskedSoftmax(b, s, scores, b.Broadcast(visible, b.TypeOf(scores).dims, {0, 3}), {1, 2});
  // V rows are masked too: 0 * NaN from a reused block would reach the sum.
  const Value values = GatherValues(b, node, s, v);
  const Type value_type = b.TypeOf(values);
  const Value clean =
      b.Emit(Op::kSelect, {b.Broadcast(visible, value_type.dims, {0, 2}), values, b.Splat(value_type, 0.0)});
  const Value sum = b.Dot(softmax.weights, clean, {0, 1}, {0, 1}, {3}, {2}, DType::kF32);  // [T,H,G,D]
  return b.Emit(Op::kDiv, {sum, b.Broadcast(softmax.sum, b.TypeOf(sum).dims, {0, 1, 2})});
}

// i1 [Q,T]: does the token belong to the request?
Value Ownership(Builder& b, const Shapes& s, Value query_start) {
  const std::vector<Dim> dims = {s.requests, s.tokens};
  const Value token = b.Iota(Type(DType::kI32, dims), 1);
  const int64_t requests = s.requests.size;
  const Value begin = b.Reshape(b.Slice(query_start, 0, 0, requests), {s.requests});
  const Value end = b.Reshape(b.Slice(query_start, 0, 1, requests + 1), {s.requests});
  return b.Emit(Op::kAnd, {b.Compare(token, b.Broadcast(begin, dims, {0}), "ge"),
                           b.Compare(token, b.Broadcast(end, dims, {0}), "lt")});
}

// i1 [Q,S]: positions up to the request's newest token.
Value WrittenPositions(Builder& b, const Shapes& s, Value owner, Value positions) {
  const std::vector<Dim> by_token = {s.requests, s.tokens};
  const Value own = b.Broadcast(positions, by_token, {1});
  const Value newest = b.Reduce(b.Emit(Op::kSelect, {owner, own, b.Splat(b.TypeOf(own), -1)}), "max", {1});
  const std::vector<Dim> dims = {s.requests, s.context};
  return b.Compare(b.Iota(Type(DType::kI32, dims), 1), b.Broadcast(newest, dims, {0}), "le");
}

// Any number of tokens per request: every request is tried with every token, and its own are kept. Q times the work of
// a ragged kernel; backends that run this declare one request per prefill graph.
Value RaggedAttention(Builder& b, const Node& node, const Shapes& s, const Values& v) {
  const int64_t rows = s.tokens.size * s.group;
  const Value q = b.Reshape(b.Convert(v[0], DType::kF32), {s.tokens, s.heads, s.group, s.width});
  const Value by_head = b.Reshape(b.Transpose(q, {1, 0, 2, 3}), {s.heads, rows, s.width});
  const Value everyone = b.Broadcast(by_head, {s.requests, s.heads, rows, s.width}, {1, 2, 3});
  const Value keys = GatherKeys(b, node, s, v);
  const Value flat = ScaleScores(b, node, b.Dot(everyone, keys, {0, 1}, {0, 1}, {3}, {3}, DType::kF32));
  const std::vector<Dim> dims = {s.requests, s.heads, s.tokens.size, s.group, s.context};
  const Value scores = b.Reshape(flat, dims);
  const Value owner = Ownership(b, s, v[4]);
  const std::vector<Dim> seen_dims = {s.requests, s.tokens.size, s.context};
  const Value visible = b.Emit(
      Op::kAnd, {b.Broadcast(CausalMask(b, node, s, v[5]), seen_dims, {1, 2}), b.Broadcast(owner, seen_dims, {0, 1})});
  const Softmax softmax = MaskedSoftmax(b, s, scores, b.Broadcast(visible, dims, {0, 2, 4}), {1, 3});
  const Value values = GatherValues(b, node, s, v);
  const Type value_type = b.TypeOf(values);
  const Value written = b.Broadcast(WrittenPositions(b, s, owner, v[5]), value_type.dims, {0, 2});
  const Value clean = b.Emit(Op::kSelect, {written, values, b.Splat(value_type, 0.0)});
  const Value weights = b.Reshape(softmax.weights, {s.requests, s.heads, rows, s.context});
  const Value products = b.Dot(weights, clean, {0, 1}, {0, 1}, {3}, {2}, DType::kF32);   // [Q,H,T*G,D]
  const Value sum = b.Reduce(products, "sum", {0});                                      // others' are exact zeros
  const Value total = b.WithScalar(Op::kMax, b.Reduce(softmax.sum, "sum", {0}), 1e-30);  // [H,T,G]
  const Value out = b.Reshape(sum, {s.heads, s.tokens.size, s.group, s.width});
  const Value mean = b.Emit(Op::kDiv, {out, b.Broadcast(total, b.TypeOf(out).dims, {0, 1, 2})});
  return b.Transpose(mean, {1, 0, 2, 3});
}

}  // namespace

// A slot outside [0, blocks * block_size) becomes 0 before the division: it lands in the null block.
Values DecomposePagedSlotIndices(Builder& b, const Node& node, const Values& v) {
  const double size = static_cast<double>(node.Int("block_size"));
  const double slots = size * static_cast<double>(node.Int("blocks"));
  const Type type = b.TypeOf(v[0]);
  const Value inside =
      b.Emit(Op::kAnd, {b.Compare(v[0], b.Splat(type, 0), "ge"), b.Compare(v[0], b.Splat(type, slots), "lt")});
  const Value slot = b.Emit(Op::kSelect, {inside, v[0], b.Splat(type, 0)});
  return {b.WithScalar(Op::kDiv, slot, size), b.WithScalar(Op::kRem, slot, size)};
}

// f8e4m3fn: the nearest code of x / scale, at most 448 in magnitude (other conversions of what is larger differ); NaN
// stays NaN. i8: codes of 1/127 of the row's largest magnitude, halves rounded up. A row with a NaN or an infinity gets
// that as its scale and codes of 0 in those places, so that all of it reads as NaN.
Values DecomposeQuantiseRows(Builder& b, const Node& node, const Values& v) {
  const Value x = b.Convert(v[0], DType::kF32);
  const Type type = b.TypeOf(x);
  if (node.Str("dtype") != ToString(DType::kI8)) {
    const double inverse = static_cast<double>(static_cast<float>(1 / node.Float("scale", 1.0)));
    const Value scaled = inverse == 1 ? x : b.WithScalar(Op::kMul, x, inverse);
    const Value bounded = b.WithScalar(Op::kMax, b.WithScalar(Op::kMin, scaled, 448), -448);
    return {b.Convert(bounded, DType::kF8E4M3)};
  }
  const int64_t last = type.rank() - 1;
  std::vector<int64_t> leading;
  for (int64_t i = 0; i < last; ++i) leading.push_back(i);
  const Value largest = b.Reduce(b.Emit(Op::kAbs, {x}), "max", {last});
  // A normal number even for a row of zeros, so that flushing denormals changes nothing.
  const Value scale = b.WithScalar(Op::kMax, b.WithScalar(Op::kMul, largest, static_cast<double>(1.0f / 127)),
                                   static_cast<double>(std::numeric_limits<float>::min()));
  const Value steps = b.Emit(Op::kDiv, {x, b.Broadcast(scale, type.dims, leading)});
  const Value codes = b.Convert(b.Emit(Op::kFloor, {b.WithScalar(Op::kAdd, steps, 0.5)}), DType::kI8);
  std::vector<Dim> column = b.TypeOf(scale).dims;
  column.push_back(Dim(1));
  return {codes, b.Reshape(scale, column)};
}

Values DecomposePagedAttention(Builder& b, const Node& node, const Values& v) {
  const Type type = b.TypeOf(v[0]);
  const Shapes s = ShapesOf(b, v);
  const Value out = node.Int("uniform") != 0 ? UniformAttention(b, node, s, v) : RaggedAttention(b, node, s, v);
  return {b.Convert(b.Reshape(out, type.dims), type.dtype)};
}

}  // namespace deepinfer::ir::internal
