// Mixture of experts: every expert on every token, and the chosen ones summed with their weights.
#include "ir/composites/decompose.h"

namespace deepinfer::ir::internal {
namespace {

struct Routing {
  Value chosen;  // i1 [T,E]
  Value weight;  // f32 [T,E], 0 where it was not chosen
};

// The k most probable experts of each token; ties go to the lowest.
Routing Route(Builder& b, const Node& node, Value logits) {
  const Value wide = b.Convert(logits, DType::kF32);
  const Type type = b.TypeOf(wide);
  const Value max = b.Broadcast(b.Reduce(wide, "max", {1}), type.dims, {0});
  const Value exp = b.Emit(Op::kExp, {b.Emit(Op::kSub, {wide, max})});
  const Value probability = b.Emit(Op::kDiv, {exp, b.Broadcast(b.Reduce(exp, "sum", {1}), type.dims, {0})});
  const Values top = b.EmitAll(Op::kTopK, {probability}, {{"k", node.Int("top_k")}});
  Value weight = top[0];
  const Type few = b.TypeOf(weight);
  if (node.Int("normalise") != 0) {
    weight = b.Emit(Op::kDiv, {weight, b.Broadcast(b.Reduce(weight, "sum", {1}), few.dims, {0})});
  }
  const Type grid(DType::kF32, {few.dims[0], few.dims[1], type.dims[1]});
  const Value expert = b.Iota(grid.WithDType(DType::kI32), 2);
  const Value one_hot = b.Compare(b.Broadcast(top[1], grid.dims, {0, 1}), expert, "eq");
  const Value spread = b.Emit(Op::kSelect, {one_hot, b.Broadcast(weight, grid.dims, {0, 1}), b.Splat(grid, 0)});
  return {b.Reduce(one_hot, "or", {1}), b.Reduce(spread, "sum", {1})};
}

}  // namespace

// Operands: x [T,H], router logits [T,E], gate and up [E*F,H], down [E*H,F], the experts stacked.
Values DecomposeMoe(Builder& b, const Node& node, const Values& v) {
  const Type x = b.TypeOf(v[0]);
  const int64_t experts = b.TypeOf(v[1]).dims[1].size, width = x.dims[1].size;
  const int64_t inner = b.TypeOf(v[4]).dims[1].size;
  const Routing routing = Route(b, node, v[1]);
  const Value hidden = b.Reshape(DecomposeGatedLinear(b, node, {v[0], v[2], v[3]})[0], {x.dims[0], experts, inner});
  const Value down = b.Reshape(b.Convert(v[4], DType::kF32), {experts, width, inner});
  const Value y = b.Dot(b.Convert(hidden, DType::kF32), down, {1}, {0}, {2}, {2}, DType::kF32);  // [E,T,H]
  const Type all = b.TypeOf(y);
  const auto over_width = [&](Value of_expert) {
    return b.Broadcast(b.Transpose(of_expert, {1, 0}), all.dims, {0, 1});
  };
  const Value term = b.Emit(Op::kMul, {over_width(routing.weight), y});
  const Value sum = b.Reduce(b.Emit(Op::kSelect, {over_width(routing.chosen), term, b.Splat(all, 0)}), "sum", {0});
  return {b.Convert(sum, x.dtype)};
}

}  // namespace deepinfer::ir::internal
