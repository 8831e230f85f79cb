// Sampling and log-probabilities. Rows are independent; ties go to the lowest id.
#include <limits>

#include "ir/composites/decompose.h"

namespace deepinfer::ir::internal {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// v[R] along the rows of [R,V].
Value PerRow(Builder& b, Value v, const Type& like) {
  return b.Broadcast(v, like.dims, {0});
}

Value Sum(Builder& b, Value x) {
  return b.Reduce(x, "sum", {1});
}

struct Logits {
  Value l;    // f32 [R,V]
  Type type;  // f32 [R,V]
  Type ids;   // i32 [R,V]
  Value max;  // f32 [R]
};

// Lowest id whose logit is the maximum.
Value ArgMax(Builder& b, const Logits& x) {
  const Value best = b.Compare(x.l, PerRow(b, x.max, x.type), "ge");
  const Value id = b.Iota(x.ids, 1);
  const Value none = b.Splat(x.ids, static_cast<double>(x.type.dims[1].size));
  return b.Reduce(b.Emit(Op::kSelect, {best, id, none}), "min", {1});
}

// i1 [R,V]: what min_p, top_k and top_p leave, in that order.
Value KeepMask(Builder& b, const Logits& x, const Values& v) {
  const Value floor = b.Emit(Op::kAdd, {x.max, b.Emit(Op::kLog, {v[4]})});  // log(0) = -inf: everything stays
  const Value low = b.Splat(x.type, -kInf);
  const Value likely = b.Emit(Op::kAnd, {b.Compare(x.l, low, "gt"), b.Compare(x.l, PerRow(b, floor, x.type), "ge")});
  const Value key = b.Emit(Op::kSelect, {likely, x.l, low});
  const Value id = b.Iota(x.ids, 1);
  const Values sorted = b.EmitAll(Op::kSort, {key, id}, {{"dim", int64_t{1}}, {"descending", int64_t{1}}});
  const Value rank = b.Iota(x.ids, 1);
  const Value k = PerRow(b, v[2], x.ids);
  const Value within = b.Emit(Op::kOr, {b.Compare(rank, k, "lt"), b.Compare(k, b.Splat(x.ids, 0), "le")});
  Value keep = b.Emit(Op::kAnd, {within, b.Compare(sorted[0], low, "gt")});
  const Value exp = b.Emit(Op::kExp, {b.Emit(Op::kSub, {sorted[0], PerRow(b, x.max, x.type)})});
  const Value mass = b.Emit(Op::kSelect, {keep, exp, b.Splat(x.type, 0)});
  const Value before = b.Emit(Op::kSub, {b.Emit(Op::kCumsum, {mass}, {{"dim", int64_t{1}}}), mass});
  const Value limit = b.Emit(Op::kMul, {v[3], Sum(b, mass)});
  const Value top_p = PerRow(b, v[3], x.type);
  const Value nucleus =
      b.Emit(Op::kOr, {b.Compare(before, PerRow(b, limit, x.type), "lt"), b.Compare(top_p, b.Splat(x.type, 1), "ge")});
  const Value best = b.Compare(rank, b.Splat(x.ids, 0), "eq");
  keep = b.Emit(Op::kAnd, {keep, b.Emit(Op::kOr, {nucleus, best})});
  const Value flag = b.Convert(keep, DType::kI32);
  const Values by_id = b.EmitAll(Op::kSort, {sorted[1], flag}, {{"dim", int64_t{1}}, {"descending", int64_t{0}}});
  return b.Compare(by_id[1], b.Splat(x.ids, 0), "gt");
}

// The first kept id, in ascending order, whose running sum of exp((l - max) / T) reaches u times the total. An id whose
// own mass is 0 in f32 is not a candidate: with u = 0 it would be reached before anything has been added.
Value Draw(Builder& b, const Logits& x, Value keep, Value temperature, Value uniform) {
  const Value distance = b.Emit(Op::kSub, {x.l, PerRow(b, x.max, x.type)});
  const Value exp = b.Emit(Op::kExp, {b.Emit(Op::kDiv, {distance, PerRow(b, temperature, x.type)})});
  const Value mass = b.Emit(Op::kSelect, {keep, exp, b.Splat(x.type, 0)});
  const Value running = b.Emit(Op::kCumsum, {mass}, {{"dim", int64_t{1}}});
  const int64_t vocab = x.type.dims[1].size;
  const Value total = b.Reshape(b.Slice(running, 1, vocab - 1, vocab), {x.type.dims[0]});
  const Value target = b.Emit(Op::kMul, {uniform, total});
  const Value possible = b.Compare(mass, b.Splat(x.type, 0), "gt");
  const Value reached = b.Emit(Op::kAnd, {possible, b.Compare(running, PerRow(b, target, x.type), "ge")});
  const Value id = b.Iota(x.ids, 1);
  const Value none = b.Splat(x.ids, static_cast<double>(vocab));
  const Value first = b.Reduce(b.Emit(Op::kSelect, {reached, id, none}), "min", {1});
  const Value last = b.Reduce(b.Emit(Op::kSelect, {possible, id, b.Splat(x.ids, -1)}), "max", {1});
  return b.Emit(Op::kMin, {first, last});
}

Logits Prepare(Builder& b, Value logits) {
  const Type type = b.TypeOf(logits);
  return {logits, type, type.WithDType(DType::kI32), b.Reduce(logits, "max", {1})};
}

}  // namespace

// Operands: logits, temperature, top_k, top_p, min_p, uniforms. -1 where a logit is NaN; T <= 0 is greedy.
Values DecomposeSample(Builder& b, const Node& /*node*/, const Values& v) {
  const Logits x = Prepare(b, v[0]);
  const Value nan = b.Reduce(b.Compare(x.l, x.l, "ne"), "or", {1});
  const Type row = b.TypeOf(v[1]);
  const Value greedy = b.Compare(v[1], b.Splat(row, 0), "le");
  const Value temperature = b.Emit(Op::kSelect, {greedy, b.Splat(row, 1), v[1]});
  const Value drawn = Draw(b, x, KeepMask(b, x, v), temperature, v[5]);
  const Value id = b.Emit(Op::kSelect, {greedy, ArgMax(b, x), drawn});
  return {b.Emit(Op::kSelect, {nan, b.Splat(b.TypeOf(id), -1), id})};
}

// Operands: logits, ids, want. Rows that want nothing are undefined.
Values DecomposeTopLogprobs(Builder& b, const Node& node, const Values& v) {
  const Logits x = Prepare(b, v[0]);
  const Value exp = b.Emit(Op::kExp, {b.Emit(Op::kSub, {x.l, PerRow(b, x.max, x.type)})});
  const Value lse = b.Emit(Op::kAdd, {x.max, b.Emit(Op::kLog, {Sum(b, exp)})});
  const int64_t rows = x.type.dims[0].size;
  const int64_t vocab = x.type.dims[1].size;
  const Value id = b.WithScalar(Op::kMin, b.WithScalar(Op::kMax, v[1], 0), static_cast<double>(vocab) - 1);
  const Value row = b.Iota(b.TypeOf(v[1]), 0);
  const Value at = b.Emit(Op::kAdd, {b.WithScalar(Op::kMul, row, static_cast<double>(vocab)), id});
  const Value chosen = b.Emit(Op::kTake, {b.Reshape(v[0], {rows * vocab}), at});
  const Values top = b.EmitAll(Op::kTopK, {v[0]}, {{"k", node.Int("k")}});
  const Value top_logprobs = b.Emit(Op::kSub, {top[0], PerRow(b, lse, b.TypeOf(top[0]))});
  return {b.Emit(Op::kSub, {chosen, lse}), top[1], top_logprobs};
}

}  // namespace deepinfer::ir::internal
