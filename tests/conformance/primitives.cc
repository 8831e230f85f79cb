// The primitives: bit-equal on every backend, in every type.
#include <cmath>
#include <limits>

#include "ir/collective.h"
#include "recorder.h"

namespace deepinfer::conformance {
namespace {

using ir::AttrMap;
using ir::Dim;
using ir::DimTag;
using ir::Op;
using ir::Type;
using ir::Value;
using Ints = std::vector<int64_t>;

class PrimitiveProblem {
 public:
  PrimitiveProblem(const Problem& p, Recorder* r)
      : p_(p), r_(r), t_(p.Int("t", 4)), n_(p.Int("n", 8)), type_(p.dtype, {Dim(t_, DimTag::kTokens), n_}) {
    r->Live(p.Int("live", t_), 0, 0);
    if (p.Has("scalar")) type_ = Type(p.dtype, {});
  }

  bool Record() {
    const ir::OpInfo& info = InfoOf(p_.op);
    if (p_.op == Op::kIndexPut || p_.op == Op::kIndexPutInplace) return RecordIndexPut();
    if (ir::IsCollective(p_.op)) return RecordCollective();
    return RecordShape() || RecordIndexing() || RecordElementwise(info.min_operands);
  }

 private:
  // Random values; with the flag `special`, the ones at the edges among them.
  Value Input(const std::string& name) {
    Bytes bytes = RandomBytes(type_, 2, &r_->random());
    if (p_.Has("special") && IsFloat(p_.dtype)) {
      const float inf = std::numeric_limits<float>::infinity();
      const float edges[] = {NAN, inf, -inf, 0.0f, -0.0f, 1e-41f, 3e38f, -2.5f};
      std::vector<float> values = Decode(p_.dtype, bytes);
      for (size_t i = 0; i < values.size(); ++i) {
        if (r_->random()() % 3 == 0) values[i] = edges[r_->random()() % std::size(edges)];
      }
      bytes = Encode(p_.dtype, values);
    }
    return r_->Metadata(name, type_, std::move(bytes));
  }

  // The root and the logarithm of something positive; small exponents, so that not everything overflows.
  Value Domain(Value x) {
    if (p_.op == Op::kLog || p_.op == Op::kSqrt || p_.op == Op::kRsqrt) return r_->b().Emit(Op::kAbs, {x});
    return x;
  }

  bool RecordElementwise(int operands) {
    if (p_.op == Op::kSelect) {
      const Value mask = r_->Random("mask", type_.WithDType(DType::kI1));
      r_->Out(r_->b().Emit(p_.op, {mask, Input("x"), Input("y")}));
      return true;
    }
    AttrMap attrs;
    if (p_.op == Op::kCompare) attrs["direction"] = p_.Str("direction", "lt");
    if (operands == 1) {
      r_->Out(r_->b().Emit(p_.op, {Domain(Input("x"))}, attrs));
    } else {
      r_->Out(r_->b().Emit(p_.op, {Input("x"), Input("y")}, attrs));
    }
    return true;
  }

  bool RecordShape() {
    ir::Builder& b = r_->b();
    switch (p_.op) {
      case Op::kConvert:
      case Op::kBitcastConvert:
        r_->Out(b.Emit(p_.op, {Input("x")}, {}, {type_.WithDType(p_.Type("to", p_.dtype))}));
        return true;
      case Op::kConstant: {
        const Bytes bytes = RandomBytes(p_.Has("splat") ? Type(p_.dtype, {}) : type_, 1, &r_->random());
        const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
        r_->Out(b.Emit(p_.op, {}, {{"value", ir::Bytes(data, data + bytes.size())}}, {type_}));
        return true;
      }
      case Op::kIota:
        r_->Out(b.Emit(p_.op, {}, {{"dim", int64_t{0}}}, {type_}));
        r_->Out(b.Emit(p_.op, {}, {{"dim", int64_t{1}}}, {type_}));
        return true;
      case Op::kReshape:
        r_->Out(b.Reshape(b.Reshape(Input("x"), {type_.dims[0], 2, n_ / 2}), type_.dims));
        return true;
      case Op::kBroadcastInDim:
        r_->Out(b.Broadcast(Input("x"), {type_.dims[0], 3, n_}, {0, 2}));
        return true;
      case Op::kTranspose:
        r_->Out(b.Transpose(b.Reshape(Input("x"), {type_.dims[0], 2, n_ / 2}), {0, 2, 1}));
        return true;
      case Op::kSlice:
        r_->Out(b.Emit(p_.op, {Input("x")}, {{"start", Ints{0, 1}}, {"limit", Ints{t_, n_}}, {"stride", Ints{1, 2}}}));
        return true;
      case Op::kConcatenate:
        r_->Out(b.Emit(p_.op, {Input("x"), Input("y")}, {{"dim", int64_t{1}}}));
        return true;
      case Op::kPad: {
        const Value fill = r_->Random("fill", Type(p_.dtype, {}));
        r_->Out(b.Emit(p_.op, {Input("x"), fill}, {{"low", Ints{0, 1}}, {"high", Ints{0, 2}}}));
        return true;
      }
      default:
        return false;
    }
  }

  bool RecordIndexing() {
    ir::Builder& b = r_->b();
    switch (p_.op) {
      case Op::kDynamicSlice: {
        const Value row = r_->Ints("row", {}, {0});
        const Value column = r_->Ints("column", {}, {static_cast<int32_t>(n_ - 1)});  // clamped
        r_->Out(b.Emit(p_.op, {Input("x"), row, column}, {{"sizes", Ints{t_, 3}}}));
        return true;
      }
      case Op::kDynamicUpdateSlice: {
        const Value part = r_->Random("part", Type(p_.dtype, {1, 3}));
        r_->Out(b.Emit(p_.op, {Input("x"), part, r_->Ints("row", {}, {2}), r_->Ints("column", {}, {-4})}));
        return true;
      }
      case Op::kTake:
        return RecordTake();
      case Op::kDotGeneral:
        return RecordDot();
      case Op::kReduce:
        r_->Out(b.Reduce(Input("x"), p_.Str("kind", "sum").c_str(), {p_.Int("dim", 1)}));
        return true;
      case Op::kCumsum:
        r_->Out(b.Emit(p_.op, {Input("x")}, {{"dim", int64_t{1}}}));
        return true;
      case Op::kSort: {
        const Value position = b.Iota(type_.WithDType(DType::kI32), 1);
        const AttrMap attrs = {{"dim", int64_t{1}}, {"descending", int64_t{p_.Has("descending")}}};
        for (const Value v : b.EmitAll(p_.op, {Input("x"), position}, attrs)) r_->Out(v);
        return true;
      }
      case Op::kTopK:
        for (const Value v : b.EmitAll(p_.op, {Input("x")}, {{"k", p_.Int("k", 1)}})) r_->Out(v);
        return true;
      default:
        return false;
    }
  }

  bool RecordCollective() {
    AttrMap attrs = ir::OverAllRanks(1);
    if (p_.Has("kind")) attrs["kind"] = p_.Str("kind", "");
    if (p_.op == Op::kAllToAll) {
      attrs["split_dim"] = attrs["concat_dim"] = int64_t{1};
    } else if (p_.op != Op::kAllReduce) {
      attrs["dim"] = int64_t{1};
    }
    r_->Out(r_->b().Emit(p_.op, {Input("x")}, attrs));
    return true;
  }

  std::vector<int32_t> Indices(int64_t count, int64_t limit) {
    std::vector<int32_t> indices;
    for (int64_t i = 0; i < count; ++i) indices.push_back(static_cast<int32_t>(r_->random()() % limit));
    indices[0] = -3;  // out of range on either side
    if (count > 1) indices[1] = static_cast<int32_t>(limit);
    return indices;
  }

  bool RecordTake() {
    const int64_t rows = 11;
    const Value table = r_->Random("table", p_.Has("vector") ? Type(p_.dtype, {rows}) : Type(p_.dtype, {rows, 2, n_}));
    std::vector<Dim> dims = {Dim(t_, DimTag::kTokens)};
    if (p_.Int("rank", 1) == 2) dims.push_back(3);
    const int64_t count = p_.Int("rank", 1) == 2 ? 3 * t_ : t_;
    r_->Out(r_->b().Emit(p_.op, {table, r_->Ints("index", dims, Indices(count, rows))}));
    return true;
  }

  // Different rows may name one place only outside of the table: no order of writes is defined.
  std::vector<int32_t> DistinctIndices(int64_t limit) {
    std::vector<int32_t> indices;
    for (int64_t i = 0; i < t_; ++i) indices.push_back(static_cast<int32_t>(limit - 1 - i));
    indices[0] = -3;
    indices[1] = static_cast<int32_t>(limit);
    return indices;
  }

  bool RecordIndexPut() {
    ir::Builder& b = r_->b();
    const Dim tokens(t_, DimTag::kTokens);
    const bool paged = p_.Has("paged");
    const Type type(p_.dtype, paged ? std::vector<Dim>{5, 2, 4, n_} : std::vector<Dim>{11, n_});
    const Value rows =
        r_->Random("rows", Type(p_.dtype, paged ? std::vector<Dim>{tokens, 2, n_} : std::vector<Dim>{tokens, n_}));
    std::vector<Value> indices;
    Ints dims = {0};
    if (paged) {
      std::vector<int32_t> block, offset;
      for (const int32_t slot : DistinctIndices(20)) {
        block.push_back(slot < 0 ? -1 : slot / 4);
        offset.push_back(slot < 0 ? 0 : slot % 4);
      }
      indices = {r_->Ints("block", {tokens}, block), r_->Ints("offset", {tokens}, offset)};
      dims = {0, 2};
    } else {
      indices = {r_->Ints("index", {tokens}, DistinctIndices(11))};
    }
    Bytes bytes = RandomBytes(type, 1, &r_->random());
    if (p_.Has("value")) {
      // Not a state: the operand keeps its content.
      const Value x = b.Emit(Op::kNeg, {r_->Metadata("x", type, std::move(bytes))});
      r_->Out(b.Emit(Op::kIndexPut, {x, indices[0], rows}, {{"dims", dims}}));
      return true;
    }
    const Value state = r_->State("state", type, std::move(bytes));
    if (p_.op == Op::kIndexPutInplace) {
      b.IndexPut(state, indices, rows, dims);
      return true;
    }
    std::vector<Value> operands = {state};
    operands.insert(operands.end(), indices.begin(), indices.end());
    operands.push_back(rows);
    r_->Out(b.Emit(Op::kIndexPut, operands, {{"dims", dims}}));
    return true;
  }

  bool RecordDot() {
    const int64_t k = p_.Int("k", 8);
    const DType out = p_.Type("out", p_.dtype);
    const Dim tokens(t_, DimTag::kTokens);
    if (p_.Has("batch")) {
      const int64_t batch = p_.Int("batch", 1);
      const Value x = r_->Random("x", Type(p_.dtype, {tokens, batch, k}));
      const Value y = r_->Random("y", Type(p_.dtype, {batch, k, n_}));
      r_->Out(r_->b().Dot(r_->b().Transpose(x, {1, 0, 2}), y, {0}, {0}, {2}, {1}, out));
      return true;
    }
    const Value x = r_->Random("x", Type(p_.dtype, {tokens, k}));
    const Value y = r_->Random("y", Type(p_.dtype, {n_, k}));
    r_->Out(r_->b().Dot(x, y, {}, {}, {1}, {1}, out));
    return true;
  }

  const Problem& p_;
  Recorder* r_;
  int64_t t_;
  int64_t n_;
  Type type_;
};

}  // namespace

bool RecordPrimitive(const Problem& p, Recorder* r) {
  const ir::OpKind kind = InfoOf(p.op).kind;
  const bool own = kind == ir::OpKind::kPrimitive || kind == ir::OpKind::kMutation;
  return own && PrimitiveProblem(p, r).Record();
}

// call, break and case of functions that write a state and read it back; custom_call of a target nobody has.
bool RecordStructure(const Problem& p, Recorder* r) {
  ir::Builder& b = r->b();
  const int64_t t = p.Int("t", 4);
  r->Live(p.Int("live", t), 0, 0);
  const Type type(p.dtype, {Dim(t, DimTag::kTokens), p.Int("n", 8)});
  const Type cache(p.dtype, {9, p.Int("n", 8)});
  const Value x = r->Random("x", type);
  if (p.op == Op::kCustomCall) {
    r->Out(b.Emit(p.op, {x}, {{"target", std::string("nobody")}}, {type}));
    return true;
  }
  const Value state = r->State("state", cache, RandomBytes(cache, 1, &r->random()));
  std::vector<int32_t> rows;
  for (int64_t i = 0; i < t; ++i) rows.push_back(static_cast<int32_t>(t - i));
  const Value index = r->Ints("index", {Dim(t, DimTag::kTokens)}, rows);
  const std::vector<std::pair<std::string, Op>> bodies = {{"exp", Op::kExp}, {"neg", Op::kNeg}, {"tanh", Op::kTanh}};
  for (const auto& [name, op] : bodies) {
    ir::Builder f = r->module().Function(name);
    const Value argument = f.Input("x", ir::InputKind::kArgument, type);
    const Value s = f.Input("s", ir::InputKind::kState, cache);
    const Value at = f.Input("i", ir::InputKind::kArgument, Type(DType::kI32, {Dim(t, DimTag::kTokens)}));
    const Value before = f.Emit(Op::kTake, {s, at});
    f.IndexPut(s, {at}, f.Emit(op, {argument}), {0});
    f.Output("y", f.Emit(Op::kAdd, {before, f.Emit(Op::kTake, {s, at})}));
  }
  const std::vector<Value> operands = {x, state, index};
  switch (p.op) {
    case Op::kCall: {
      const Value y = b.Call("exp", operands)[0];
      r->Out(b.Call("neg", {y, state, index})[0]);
      return true;
    }
    case Op::kBreak: {
      const Value y = b.EagerBreak("first", "exp", operands)[0];
      r->Out(b.EagerBreak("second", "neg", {y, state, index})[0]);
      return true;
    }
    case Op::kCase: {
      const Value which = r->Ints("which", {}, {static_cast<int32_t>(p.Int("index", 0))});
      r->Out(
          b.Emit(Op::kCase, {which, x, state, index}, {{"branches", std::vector<std::string>{"exp", "neg", "tanh"}}}));
      return true;
    }
    default:
      return false;
  }
}

}  // namespace deepinfer::conformance
