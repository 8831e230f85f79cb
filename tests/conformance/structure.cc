// Structural ops, and a state that goes through them.
#include <cmath>

#include "recorder.h"

namespace deepinfer::conformance {
namespace {

using ir::Dim;
using ir::DimTag;
using ir::Op;
using ir::Type;
using ir::Value;

// call, break and case of functions that write a state and read it back; custom_call of a target nobody has.
class StructureProblem {
 public:
  StructureProblem(const Problem& p, Recorder* r)
      : p_(p), r_(r), t_(p.Int("t", 4)), n_(p.Int("n", 8)), type_(p.dtype, {Dim(t_, DimTag::kTokens), n_}) {
    r->Live(p.Int("live", t_), 0, 0);
  }

  bool Record() {
    const Value x = r_->Random("x", type_);
    if (p_.op == Op::kCustomCall) {
      r_->Out(r_->b().Emit(p_.op, {x}, {{"target", std::string("nobody")}}, {type_}));
      return true;
    }
    const Type cache(p_.dtype, {t_ + 4, n_});
    Bytes bytes = RandomBytes(cache, 1, &r_->random());
    const double before = MaxAbs(Decode(p_.dtype, bytes));
    const Value state = r_->State("state", cache, std::move(bytes), StateSlack(x, before));
    std::vector<int32_t> rows;
    for (int64_t i = 0; i < t_; ++i) rows.push_back(RowOf(i));
    operands_ = {x, state, r_->Ints("index", {Dim(t_, DimTag::kTokens)}, rows)};
    Function(kNames[0], Op::kExp, cache);
    Function(kNames[1], Op::kNeg, cache);
    Function(kNames[2], Op::kTanh, cache);
    for (const Value y : Emit()) r_->Out(y, {}, ResultSlack(x, before));
    return true;
  }

 private:
  // The step's own symbol elsewhere, and one that needs quotes.
  static constexpr const char* kNames[] = {"main", "odd \"name\"", "tanh"};

  int32_t RowOf(int64_t token) const { return static_cast<int32_t>(t_ - token); }

  void Function(const char* name, Op op, const Type& cache) {
    ir::Builder f = r_->module().Function(name);
    const Value argument = f.Input("x", ir::InputKind::kArgument, type_);
    const Value s = f.Input("s", ir::InputKind::kState, cache);
    const Value at = f.Input("i", ir::InputKind::kArgument, Type(DType::kI32, {Dim(t_, DimTag::kTokens)}));
    const Value before = f.Emit(Op::kTake, {s, at});
    f.IndexPut(s, {at}, f.Emit(op, {argument}), {0});
    f.Output("y", f.Emit(Op::kAdd, {before, f.Emit(Op::kTake, {s, at})}));
  }

  std::vector<Value> Emit() {
    ir::Builder& b = r_->b();
    std::vector<Value> operands = operands_;
    switch (p_.op) {
      case Op::kCall:
        operands[0] = b.Call(kNames[0], operands)[0];
        return b.Call(kNames[1], operands);
      case Op::kBreak:
        operands[0] = b.EagerBreak("first", kNames[0], operands)[0];
        return b.EagerBreak("second", kNames[1], operands);
      default:
        operands.insert(operands.begin(), r_->Ints("which", {}, {static_cast<int32_t>(p_.Int("index", 0))}));
        return b.EmitAll(Op::kCase, operands, {{"branches", std::vector<std::string>(kNames, kNames + 3)}});
    }
  }

  // What goes through is exp(x), what a state held, and sums of the two: at most three results, each of which may round
  // to a neighbour.
  double SlackAt(Value x, int64_t i, double before) const {
    return 3 * UlpOf(p_.dtype) * (2 * std::exp(r_->ValuesOf(x)[static_cast<size_t>(i)]) + before);
  }

  Slack ResultSlack(Value x, double before) const {
    Slack slack = Within(0);
    for (int64_t i = 0; i < t_ * n_; ++i) slack.absolute.push_back(SlackAt(x, i, before));
    return slack;
  }

  Slack StateSlack(Value x, double before) const {
    Slack slack = Within(0, std::vector<double>(static_cast<size_t>((t_ + 4) * n_), 0));
    for (int64_t i = 0; i < p_.Int("live", t_) * n_; ++i) {
      slack.absolute[static_cast<size_t>(RowOf(i / n_) * n_ + i % n_)] = SlackAt(x, i, before);
    }
    return slack;
  }

  const Problem& p_;
  Recorder* r_;
  int64_t t_;
  int64_t n_;
  Type type_;
  std::vector<Value> operands_;
};

}  // namespace

bool RecordStructure(const Problem& p, Recorder* r) {
  return InfoOf(p.op).kind == ir::OpKind::kStructural && StructureProblem(p, r).Record();
}

}  // namespace deepinfer::conformance
