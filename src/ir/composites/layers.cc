// Embedding, norms, rotary position, projections, gated activations. All math in f32, one rounding at the end.
#include "ir/composites/decompose.h"

namespace deepinfer::ir::internal {
namespace {

// v[n] as the last dimension of `like`.
Value AlongLast(Builder& b, Value v, const Type& like) {
  return b.Broadcast(v, like.dims, {static_cast<int64_t>(like.dims.size()) - 1});
}

// v[a, b] as dimensions 0 and 2 of [a, heads, b].
Value OverHeads(Builder& b, Value v, const Type& like) {
  return b.Broadcast(v, like.dims, {0, 2});
}

DType ResultDType(const Node& node, DType fallback) {
  const std::string name = node.Str("dtype");
  return name.empty() ? fallback : *ParseDType(name);
}

Value Normalise(Builder& b, Value x, Value weight, const Node& node) {
  const Type type = b.TypeOf(x);
  const int64_t last = type.rank() - 1;
  const Value wide = b.Convert(x, DType::kF32);
  const Value sum = b.Reduce(b.Emit(Op::kMul, {wide, wide}), "sum", {last});
  const Value mean = b.WithScalar(Op::kDiv, sum, static_cast<double>(type.dims.back().size));
  const Value scale = b.Emit(Op::kRsqrt, {b.WithScalar(Op::kAdd, mean, node.Float("eps"))});
  std::vector<int64_t> leading;
  for (int64_t i = 0; i < last; ++i) leading.push_back(i);
  const Type wide_type = b.TypeOf(wide);
  const Value scaled = b.Emit(Op::kMul, {wide, b.Broadcast(scale, wide_type.dims, leading)});
  const Value gain = b.WithScalar(Op::kAdd, b.Convert(weight, DType::kF32), node.Float("offset"));
  return b.Convert(b.Emit(Op::kMul, {scaled, AlongLast(b, gain, wide_type)}), type.dtype);
}

Value Project(Builder& b, Value x, Value weight, Value bias, DType dtype) {
  const Value wide = b.Convert(x, DType::kF32);
  Value y = b.Dot(wide, b.Convert(weight, DType::kF32), {}, {}, {1}, {1}, DType::kF32);
  if (bias.valid()) y = b.Emit(Op::kAdd, {y, AlongLast(b, b.Convert(bias, DType::kF32), b.TypeOf(y))});
  return b.Convert(y, dtype);
}

}  // namespace

Values DecomposeEmbedding(Builder& b, const Node& node, const Values& v) {
  const double last = static_cast<double>(b.TypeOf(v[0]).dims[0].size) - 1;
  const Value ids = b.WithScalar(Op::kMin, b.WithScalar(Op::kMax, v[1], 0), last);
  const Value rows = b.Convert(b.Emit(Op::kTake, {v[0], ids}), DType::kF32);
  return {b.Convert(b.WithScalar(Op::kMul, rows, node.Float("scale", 1.0)), ResultDType(node, DType::kF32))};
}

Values DecomposeRmsNorm(Builder& b, const Node& node, const Values& v) {
  return {Normalise(b, v[0], v[1], node)};
}

Values DecomposeAddRmsNorm(Builder& b, const Node& node, const Values& v) {
  const Value sum = b.Emit(Op::kAdd, {v[0], v[1]});
  return {sum, Normalise(b, sum, v[2], node)};
}

Values DecomposeRopeTable(Builder& b, const Node& node, const Values& v) {
  const std::vector<Dim> dims = {b.TypeOf(v[0]).dims[0], b.TypeOf(v[1]).dims[0]};
  const Value positions = b.Broadcast(b.Convert(v[0], DType::kF32), dims, {0});
  const Value angle = b.Emit(Op::kMul, {positions, b.Broadcast(v[1], dims, {1})});
  const double mscale = node.Float("mscale", 1.0);
  return {b.WithScalar(Op::kMul, b.Emit(Op::kCos, {angle}), mscale),
          b.WithScalar(Op::kMul, b.Emit(Op::kSin, {angle}), mscale)};
}

Values DecomposeRope(Builder& b, const Node& node, const Values& v) {
  const Type type = b.TypeOf(v[0]);
  const int64_t half = b.TypeOf(v[1]).dims[1].size;
  const int64_t width = type.dims[2].size;
  const bool interleaved = node.Int("interleaved") != 0;
  const Value wide = b.Convert(v[0], DType::kF32);
  const std::vector<Dim> half_dims = {type.dims[0], type.dims[1], half};
  Value first;
  Value second;
  if (interleaved) {
    const Value pairs = b.Reshape(b.Slice(wide, 2, 0, 2 * half), {type.dims[0], type.dims[1], half, 2});
    first = b.Reshape(b.Slice(pairs, 3, 0, 1), half_dims);
    second = b.Reshape(b.Slice(pairs, 3, 1, 2), half_dims);
  } else {
    first = b.Slice(wide, 2, 0, half);
    second = b.Slice(wide, 2, half, 2 * half);
  }
  const Value cos = OverHeads(b, v[1], b.TypeOf(first));
  const Value sin = OverHeads(b, v[2], b.TypeOf(first));
  const Value out_first = b.Emit(Op::kSub, {b.Emit(Op::kMul, {first, cos}), b.Emit(Op::kMul, {second, sin})});
  const Value out_second = b.Emit(Op::kAdd, {b.Emit(Op::kMul, {second, cos}), b.Emit(Op::kMul, {first, sin})});
  Value rotated;
  if (interleaved) {
    const std::vector<Dim> column = {type.dims[0], type.dims[1], half, 1};
    rotated =
        b.Emit(Op::kConcatenate, {b.Reshape(out_first, column), b.Reshape(out_second, column)}, {{"dim", int64_t{3}}});
    rotated = b.Reshape(rotated, {type.dims[0], type.dims[1], 2 * half});
  } else {
    rotated = b.Emit(Op::kConcatenate, {out_first, out_second}, {{"dim", int64_t{2}}});
  }
  if (2 * half < width) {
    rotated = b.Emit(Op::kConcatenate, {rotated, b.Slice(wide, 2, 2 * half, width)}, {{"dim", int64_t{2}}});
  }
  return {b.Convert(b.Reshape(rotated, type.dims), type.dtype)};
}

Values DecomposeLinear(Builder& b, const Node& node, const Values& v) {
  return {Project(b, v[0], v[1], v.size() == 3 ? v[2] : Value{}, ResultDType(node, b.TypeOf(v[0]).dtype))};
}

Values DecomposeMultiLinear(Builder& b, const Node& node, const Values& v) {
  const size_t weights = static_cast<size_t>(node.Int("weights"));
  const bool bias = node.Int("bias") != 0;
  Values results;
  for (size_t i = 0; i < weights; ++i) {
    results.push_back(
        Project(b, v[0], v[1 + i], bias ? v[1 + weights + i] : Value{}, ResultDType(node, b.TypeOf(v[0]).dtype)));
  }
  return results;
}

Values DecomposeGlu(Builder& b, const Node& node, const Values& v) {
  const DType dtype = b.TypeOf(v[0]).dtype;
  const Value gate = b.Convert(v[0], DType::kF32);
  const Value up = b.Convert(v[1], DType::kF32);
  Value active;
  if (node.Str("activation") == "silu") {
    active = b.Emit(Op::kMul, {gate, b.Emit(Op::kLogistic, {gate})});
  } else {  // gelu, tanh form: 0.5 g (1 + tanh(sqrt(2/pi) (g + 0.044715 g^3)))
    const Value cube = b.Emit(Op::kMul, {b.Emit(Op::kMul, {gate, gate}), gate});
    const Value inner = b.Emit(Op::kAdd, {gate, b.WithScalar(Op::kMul, cube, 0.044715)});
    const Value tanh = b.Emit(Op::kTanh, {b.WithScalar(Op::kMul, inner, 0.7978845608028654)});
    active = b.Emit(Op::kMul, {b.WithScalar(Op::kMul, gate, 0.5), b.WithScalar(Op::kAdd, tanh, 1.0)});
  }
  return {b.Convert(b.Emit(Op::kMul, {active, up}), dtype)};
}

// Operands: x, gate, up and their biases, if there are any. Both products are rounded before they are multiplied.
Values DecomposeGatedLinear(Builder& b, const Node& node, const Values& v) {
  const bool bias = v.size() == 5;
  const DType dtype = ResultDType(node, b.TypeOf(v[0]).dtype);
  const Value gate = Project(b, v[0], v[1], bias ? v[3] : Value{}, dtype);
  const Value up = Project(b, v[0], v[2], bias ? v[4] : Value{}, dtype);
  return DecomposeGlu(b, node, {gate, up});
}

// Operands: q, k, v, cos, sin, block, offset, K and V cache, their scales if they are i8, and the norms' weights of q
// and k, if they are normalised.
Values DecomposeRopeKvWrite(Builder& b, const Node& node, const Values& v) {
  const DType cache = b.TypeOf(v[7]).dtype;
  const bool scaled = cache == DType::kI8;
  const size_t norms = scaled ? 11 : 9;
  const bool norm = v.size() > norms;
  const Value q = norm ? Normalise(b, v[0], v[norms], node) : v[0];
  const Value k = norm ? Normalise(b, v[1], v[norms + 1], node) : v[1];
  Node quantise;
  quantise.attrs = {{"dtype", std::string(ToString(cache))}};
  const auto rows_of = [&](Value rows) -> Values {
    return SizeOf(cache) == 1 ? DecomposeQuantiseRows(b, quantise, {rows}) : Values{b.Convert(rows, cache)};
  };
  const auto write = [&](Value state, Value rows) {
    return b.Emit(Op::kIndexPut, {state, v[5], v[6], rows}, {{"dims", std::vector<int64_t>{0, 2}}});
  };
  const Value turned = DecomposeRope(b, node, {q, v[3], v[4]})[0];
  const Values keys = rows_of(DecomposeRope(b, node, {k, v[3], v[4]})[0]), values = rows_of(v[2]);
  if (!scaled) return {turned, write(v[7], keys[0]), write(v[8], values[0])};
  return {turned, write(v[7], keys[0]), write(v[8], values[0]), write(v[9], keys[1]), write(v[10], values[1])};
}

}  // namespace deepinfer::ir::internal
