// Primitives that move, index, order or sum. On our own backends they are bit-equal in every type.
#include <algorithm>
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
  }

  bool Record() {
    if (p_.op == Op::kIndexPut || p_.op == Op::kIndexPutInplace) return RecordIndexPut();
    if (ir::IsCollective(p_.op)) return RecordCollective();
    return RecordShape() || RecordIndexing() || RecordSums();
  }

 private:
  // Random values; with the flag `special`, infinities, NaN and zeros of both signs among them.
  Value Input(const std::string& name) {
    Bytes bytes = RandomBytes(type_, 2, &r_->random());
    if (p_.Has("special") && IsFloat(p_.dtype)) {
      const float inf = std::numeric_limits<float>::infinity();
      const float edges[] = {NAN, inf, -inf, 0.0f, -0.0f, -2.5f};
      std::vector<float> values = Decode(p_.dtype, bytes);
      for (float& value : values) {
        if (r_->random()() % 3 == 0) value = edges[r_->random()() % std::size(edges)];
      }
      bytes = Encode(p_.dtype, values);
    }
    return r_->Metadata(name, type_, std::move(bytes));
  }

  bool RecordShape() {
    ir::Builder& b = r_->b();
    switch (p_.op) {
      case Op::kConstant:
        RecordConstant(type_, type_);
        RecordConstant(type_, Type(p_.dtype, {}));  // one value everywhere
        RecordConstant(Type(p_.dtype, {}), Type(p_.dtype, {}));
        RecordConstant(Type(p_.dtype, {0, 3}), Type(p_.dtype, {0, 3}));
        return true;
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

  void RecordConstant(const Type& type, const Type& content) {
    const Bytes bytes = RandomBytes(content, 1, &r_->random());
    const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
    r_->Out(r_->b().Emit(p_.op, {}, {{"value", ir::Bytes(data, data + bytes.size())}}, {type}));
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
      case Op::kSort: {
        const int64_t dim = p_.Int("dim", 1);  // 0: of live rows only
        const Value position = b.Iota(type_.WithDType(DType::kI32), dim);
        const AttrMap attrs = {{"dim", dim}, {"descending", int64_t{p_.Has("descending")}}};
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
    for (int64_t i = 0; i < count; ++i) {
      indices.push_back(static_cast<int32_t>(r_->random()() % std::max<int64_t>(1, limit)));
    }
    indices[0] = -3;  // out of range on either side
    if (count > 1) indices[1] = static_cast<int32_t>(limit);
    return indices;
  }

  bool RecordTake() {
    const int64_t rows = p_.Int("rows", 11);
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
    if (p_.op == Op::kIndexPut) {
      const Value x = b.Emit(p_.dtype == DType::kI1 ? Op::kNot : Op::kNeg, {r_->Metadata("x", type, std::move(bytes))});
      std::vector<Value> operands = {x};
      operands.insert(operands.end(), indices.begin(), indices.end());
      operands.push_back(rows);
      r_->Out(b.Emit(p_.op, operands, {{"dims", dims}}));
      return true;
    }
    b.IndexPut(r_->State("state", type, std::move(bytes)), indices, rows, dims);
    return true;
  }

  // A sum of `count` terms of at most `largest` in another order: its roundings are a random walk over partial sums
  // that are one themselves (composites.cc), whose deviation is at most 2^-24 * count * largest; 16 of them.
  static Slack SumSlack(int64_t count, double largest) {
    return Within(0, {16 * kHalfUlp * static_cast<double>(count) * largest});
  }

  bool RecordSums() {
    ir::Builder& b = r_->b();
    if (p_.op == Op::kDotGeneral) return RecordDot();
    const Value x = Input("x");
    const double largest = MaxAbs(r_->ValuesOf(x));
    if (p_.op == Op::kCumsum) {
      r_->Out(b.Emit(p_.op, {x}, {{"dim", int64_t{1}}}), {}, SumSlack(n_, largest));
      return true;
    }
    if (p_.op != Op::kReduce) return false;
    for (const std::string& kind : p_.List("kind")) {
      for (const int64_t dim : {0, 1}) {  // over live rows, over columns
        r_->Out(b.Reduce(x, kind.c_str(), {dim}), {}, kind == "sum" ? SumSlack(std::max(t_, n_), largest) : AnyZero());
      }
    }
    return true;
  }

  bool RecordDot() {
    ir::Builder& b = r_->b();
    const int64_t k = p_.Int("k", 8);
    const DType out = p_.Type("out", p_.dtype);
    const Dim tokens(t_, DimTag::kTokens);
    const auto input = [&](const char* name, const std::vector<Dim>& dims) {
      return r_->Random(name, Type(p_.dtype, dims));
    };
    const auto emit = [&](Value x, Value y, Value result, int64_t count) {
      r_->Out(result, {}, SumSlack(count, MaxAbs(r_->ValuesOf(x)) * MaxAbs(r_->ValuesOf(y))));
      return true;
    };
    if (p_.Has("batch")) {
      const int64_t batch = p_.Int("batch", 1);
      const Value x = input("x", {tokens, batch, k});
      const Value y = input("y", {batch, k, n_});
      return emit(x, y, b.Dot(b.Transpose(x, {1, 0, 2}), y, {0}, {0}, {2}, {1}, out), k);
    }
    if (p_.Has("outer")) {
      const Value x = input("x", {tokens});
      const Value y = input("y", {n_});
      return emit(x, y, b.Dot(x, y, {}, {}, {}, {}, out), 1);
    }
    if (p_.Has("over_tokens")) {  // live ones
      const Value x = input("x", {tokens, k});
      const Value y = input("y", {tokens, n_});
      return emit(x, y, b.Dot(b.Transpose(x, {1, 0}), b.Transpose(y, {1, 0}), {}, {}, {1}, {1}, out), t_);
    }
    const Value x = input("x", {tokens, k});
    const Value y = input("y", {n_, k});
    return emit(x, y, b.Dot(x, y, {}, {}, {1}, {1}, out), k);
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

}  // namespace deepinfer::conformance
