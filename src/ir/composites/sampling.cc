// Sampling (ir/sampling.h) and log-probabilities. Rows are independent; ties go to the lowest id.
#include "ir/sampling.h"

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

Value And(Builder& b, Value x, Value y) {
  return b.Emit(Op::kAnd, {x, y});
}

Value Or(Builder& b, Value x, Value y) {
  return b.Emit(Op::kOr, {x, y});
}

Value Select(Builder& b, Value condition, Value yes, Value no) {
  return b.Emit(Op::kSelect, {condition, yes, no});
}

// The logits with the rows' adjustments. Entries that are not live go to one place behind the logits. Indices are
// computed once everything is flat: what rows past the live count hold is undefined, and must not reach other rows.
Value Adjusted(Builder& b, const Values& v) {
  const Value logits = v[kSampleLogits];
  const Type type = b.TypeOf(logits);
  const int64_t rows = type.dims[0].size, vocab = type.dims[1].size;
  const Type list = b.TypeOf(v[kSampleAdjustIds]);
  const int64_t entries = list.NumElements();
  const int64_t size = rows * vocab;
  const auto flatten = [&](Value x) { return b.Reshape(x, {entries}); };
  const auto flat = [&](SampleOperand operand) { return flatten(v[operand]); };
  const Type all_entries(DType::kI32, {rows, list.dims[1].size});
  const Value row = flatten(b.Iota(all_entries, 0));
  const Value place = flatten(b.Iota(all_entries, 1));
  const Value live = b.Compare(place, flatten(PerRow(b, v[kSampleNumAdjustments], list)), "lt");
  const Value id =
      b.WithScalar(Op::kMin, b.WithScalar(Op::kMax, flat(kSampleAdjustIds), 0), static_cast<double>(vocab) - 1);
  const Value inside = b.Emit(Op::kAdd, {b.WithScalar(Op::kMul, row, static_cast<double>(vocab)), id});
  const Value at = Select(b, live, inside, b.Splat(b.TypeOf(inside), static_cast<double>(size)));
  const Value all =
      b.Emit(Op::kConcatenate, {b.Reshape(logits, {size}), b.Splat(Type(DType::kF32, {1}), 0)}, {{"dim", int64_t{0}}});
  const Value biased = b.Emit(Op::kAdd, {b.Emit(Op::kTake, {all, at}), flat(kSampleBias)});
  const Value factor = flat(kSampleRepetition);
  const Value positive = b.Compare(biased, b.Splat(b.TypeOf(biased), 0), "gt");
  const Value repeated = Select(b, positive, b.Emit(Op::kDiv, {biased, factor}), b.Emit(Op::kMul, {biased, factor}));
  const Value value = b.Emit(Op::kSub, {repeated, flat(kSamplePenalty)});
  const Value put = b.Emit(Op::kIndexPut, {all, at, value}, {{"dims", std::vector<int64_t>{0}}});
  return b.Reshape(b.Slice(put, 0, 0, size), type.dims);
}

// -inf where the row has a mask and the token's bit is 0.
Value Masked(Builder& b, const Values& v, Value logits) {
  const Type type = b.TypeOf(logits);
  const Type words = b.TypeOf(v[kSampleTokenMask]);
  const Type bits(DType::kI32, {words.dims[0], words.dims[1], 32});
  const Value word = b.Broadcast(v[kSampleTokenMask], bits.dims, {0, 1});
  const Value bit = b.WithScalar(Op::kAnd, b.Emit(Op::kShiftRight, {word, b.Iota(bits, 2)}), 1);
  const Value by_id = b.Reshape(bit, {words.dims[0], words.dims[1].size * 32});
  const Value set = b.Slice(by_id, 1, 0, type.dims[1].size);
  const Value allowed = b.Compare(set, b.Splat(b.TypeOf(set), 0), "ne");
  const Value has_mask = PerRow(b, v[kSampleHasMask], b.TypeOf(set));
  const Value free = b.Compare(has_mask, b.Splat(b.TypeOf(has_mask), 0), "eq");
  return Select(b, Or(b, allowed, free), logits, b.Splat(type, -kInf));
}

// The tokens by (logit descending, id ascending), with what is still a candidate.
struct Ranked {
  Value logit;  // f32 [R,V]
  Value id;     // i32 [R,V]
  Value rank;   // i32 [R,V]
  Value keep;   // i1 [R,V]
  Value exp;    // f32 [R,V]: exp(l - max)
};

Value Mass(Builder& b, const Ranked& r) {
  return Select(b, r.keep, r.exp, b.Splat(b.TypeOf(r.exp), 0));
}

// Cumulative sum of what stands before.
Value MassBefore(Builder& b, Value mass) {
  return b.Emit(Op::kSub, {b.Emit(Op::kCumsum, {mass}, {{"dim", int64_t{1}}}), mass});
}

// min_p, then top_k.
Ranked RankBest(Builder& b, const Logits& x, const Values& v) {
  const Value floor = b.Emit(Op::kAdd, {x.max, b.Emit(Op::kLog, {v[kSampleMinP]})});  // log(0) = -inf: everything stays
  const Value low = b.Splat(x.type, -kInf);
  const Value likely = And(b, b.Compare(x.l, low, "gt"), b.Compare(x.l, PerRow(b, floor, x.type), "ge"));
  const Value key = Select(b, likely, x.l, low);
  const Values sorted =
      b.EmitAll(Op::kSort, {key, b.Iota(x.ids, 1)}, {{"dim", int64_t{1}}, {"descending", int64_t{1}}});
  Ranked r;
  r.logit = sorted[0];
  r.id = sorted[1];
  r.rank = b.Iota(x.ids, 1);
  const Value k = PerRow(b, v[kSampleTopK], x.ids);
  const Value within = Or(b, b.Compare(r.rank, k, "lt"), b.Compare(k, b.Splat(x.ids, 0), "le"));
  r.keep = And(b, within, b.Compare(r.logit, low, "gt"));
  r.exp = b.Emit(Op::kExp, {b.Emit(Op::kSub, {r.logit, PerRow(b, x.max, x.type)})});
  return r;
}

// -log p of a token differs from the entropy by as much as its logit from the expected logit.
Value KeepTypical(Builder& b, const Logits& x, const Ranked& r, Value typical_p) {
  const Value zero = b.Splat(x.type, 0);
  const Value mass = Mass(b, r);
  const Value total = Sum(b, mass);
  const Value shifted = Select(b, r.keep, b.Emit(Op::kSub, {r.logit, PerRow(b, x.max, x.type)}), zero);
  const Value mean = b.Emit(Op::kDiv, {Sum(b, b.Emit(Op::kMul, {mass, shifted})), total});
  const Value away = b.Emit(Op::kAbs, {b.Emit(Op::kSub, {shifted, PerRow(b, mean, x.type)})});
  const Value distance = Select(b, r.keep, away, b.Splat(x.type, kInf));
  const Values sorted = b.EmitAll(Op::kSort, {distance, mass}, {{"dim", int64_t{1}}, {"descending", int64_t{0}}});
  const Value limit = PerRow(b, b.Emit(Op::kMul, {typical_p, total}), x.type);
  const Value near =
      And(b, b.Compare(MassBefore(b, sorted[1]), limit, "lt"), b.Compare(sorted[0], b.Splat(x.type, kInf), "lt"));
  const Value farthest = b.Reduce(Select(b, near, sorted[0], zero), "max", {1});
  const Value off = b.Compare(PerRow(b, typical_p, x.type), b.Splat(x.type, 1), "ge");
  return And(b, r.keep, Or(b, off, b.Compare(distance, PerRow(b, farthest, x.type), "le")));
}

Value KeepTopP(Builder& b, const Logits& x, const Ranked& r, Value top_p) {
  const Value mass = Mass(b, r);
  const Value limit = PerRow(b, b.Emit(Op::kMul, {top_p, Sum(b, mass)}), x.type);
  const Value off = b.Compare(PerRow(b, top_p, x.type), b.Splat(x.type, 1), "ge");
  const Value none = b.Splat(x.ids, static_cast<double>(x.type.dims[1].size));
  const Value first = b.Reduce(Select(b, r.keep, r.rank, none), "min", {1});
  const Value best = b.Compare(r.rank, PerRow(b, first, x.ids), "eq");
  return And(b, r.keep, Or(b, Or(b, b.Compare(MassBefore(b, mass), limit, "lt"), off), best));
}

Value KeepXtc(Builder& b, const Logits& x, const Ranked& r, const Values& v) {
  const Value mass = Mass(b, r);
  const Value limit = b.Emit(Op::kMul, {v[kSampleXtcThreshold], Sum(b, mass)});
  const Value likely = And(b, r.keep, b.Compare(mass, PerRow(b, limit, x.type), "ge"));
  const Value last = b.Reduce(Select(b, likely, r.rank, b.Splat(x.ids, -1)), "max", {1});
  const Value off = b.Compare(v[kSampleXtcUniforms], v[kSampleXtcProbability], "ge");
  const Value from = Select(b, off, b.Splat(b.TypeOf(last), -1), last);
  return And(b, r.keep, b.Compare(r.rank, PerRow(b, from, x.ids), "ge"));
}

// i1 [R,V], by id: what the filters leave.
Value KeepMask(Builder& b, const Logits& x, const Values& v) {
  Ranked r = RankBest(b, x, v);
  r.keep = KeepTypical(b, x, r, v[kSampleTypicalP]);
  r.keep = KeepTopP(b, x, r, v[kSampleTopP]);
  r.keep = KeepXtc(b, x, r, v);
  const Value flag = b.Convert(r.keep, DType::kI32);
  const Values by_id = b.EmitAll(Op::kSort, {r.id, flag}, {{"dim", int64_t{1}}, {"descending", int64_t{0}}});
  return b.Compare(by_id[1], b.Splat(x.ids, 0), "gt");
}

// The lowest kept id whose logit is `best`; -1 if nothing is kept.
Value ArgMax(Builder& b, const Logits& x, Value keep, Value best) {
  const Value vocab = b.Splat(x.ids, static_cast<double>(x.type.dims[1].size));
  const Value found = And(b, keep, b.Compare(x.l, PerRow(b, best, x.type), "eq"));
  const Value id = b.Reduce(Select(b, found, b.Iota(x.ids, 1), vocab), "min", {1});
  const Type row = b.TypeOf(id);
  const Value none = b.Compare(id, b.Splat(row, static_cast<double>(x.type.dims[1].size)), "eq");
  return Select(b, none, b.Splat(row, -1), id);
}

// The first kept id, in ascending order, whose running sum of exp((l - best) / T) reaches u times the total. An id
// whose own mass is 0 in f32 is not a candidate: with u = 0 it would be reached before anything has been added.
Value Draw(Builder& b, const Logits& x, Value keep, Value best, Value temperature, Value uniform) {
  const Value distance = b.Emit(Op::kSub, {x.l, PerRow(b, best, x.type)});
  const Value exp = b.Emit(Op::kExp, {b.Emit(Op::kDiv, {distance, PerRow(b, temperature, x.type)})});
  const Value mass = Select(b, keep, exp, b.Splat(x.type, 0));
  const Value running = b.Emit(Op::kCumsum, {mass}, {{"dim", int64_t{1}}});
  const int64_t vocab = x.type.dims[1].size;
  const Value total = b.Reshape(b.Slice(running, 1, vocab - 1, vocab), {x.type.dims[0]});
  const Value target = b.Emit(Op::kMul, {uniform, total});
  const Value possible = b.Compare(mass, b.Splat(x.type, 0), "gt");
  const Value reached = And(b, possible, b.Compare(running, PerRow(b, target, x.type), "ge"));
  const Value id = b.Iota(x.ids, 1);
  const Value none = b.Splat(x.ids, static_cast<double>(vocab));
  const Value first = b.Reduce(Select(b, reached, id, none), "min", {1});
  const Value last = b.Reduce(Select(b, possible, id, b.Splat(x.ids, -1)), "max", {1});
  return b.Emit(Op::kMin, {first, last});
}

Logits Prepare(Builder& b, Value logits) {
  const Type type = b.TypeOf(logits);
  return {logits, type, type.WithDType(DType::kI32), b.Reduce(logits, "max", {1})};
}

}  // namespace

// Operands: ir/sampling.h.
Values DecomposeSample(Builder& b, const Node& /*node*/, const Values& v) {
  const Value raw = v[kSampleLogits];
  const Value nan = b.Reduce(b.Compare(raw, raw, "ne"), "or", {1});
  const Logits x = Prepare(b, Masked(b, v, Adjusted(b, v)));
  const Value keep = KeepMask(b, x, v);
  const Value best = b.Reduce(Select(b, keep, x.l, b.Splat(x.type, -kInf)), "max", {1});
  const Type row = b.TypeOf(v[kSampleTemperature]);
  const Value greedy = b.Compare(v[kSampleTemperature], b.Splat(row, 0), "le");
  const Value temperature = Select(b, greedy, b.Splat(row, 1), v[kSampleTemperature]);
  const Value drawn = Draw(b, x, keep, best, temperature, v[kSampleUniforms]);
  const Value id = Select(b, greedy, ArgMax(b, x, keep, best), drawn);
  return {Select(b, nan, b.Splat(b.TypeOf(id), -1), id)};
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
