// Elementwise primitives, conversions among them. On our own backends they are bit-equal in every type.
#include <cmath>
#include <cstring>
#include <limits>

#include "recorder.h"

namespace deepinfer::conformance {
namespace {

using ir::Dim;
using ir::DimTag;
using ir::Op;
using ir::Type;
using ir::Value;

// Another compiler has its own elementary functions. Good ones err by a few units in the last place of f32 (eight are
// allowed); sine and cosine by units of their largest value, 1, and a logarithm near 1 by units of its argument. A
// power is the exponential of y log x, and that exponent, up to log(max f32) = 89, carries its roundings into the
// result.
Slack CompiledSlack(Op op) {
  constexpr double kFew = 16 * kHalfUlp;
  switch (op) {
    case Op::kExp:
    case Op::kTanh:
    case Op::kSqrt:
    case Op::kRsqrt:
    case Op::kLogistic:
      return Within(kFew);
    case Op::kLog:
    case Op::kSin:
    case Op::kCos:
      return Within(kFew, {kFew});
    case Op::kPow:
      return Within(kFew + 2 * 89 * kHalfUlp);
    case Op::kMax:
    case Op::kMin:
      return AnyZero();  // of two zeros either is the greater
    default:
      return {};
  }
}

class ElementwiseProblem {
 public:
  ElementwiseProblem(const Problem& p, Recorder* r)
      : p_(p), r_(r), type_(p.dtype, {Dim(p.Int("t", 4), DimTag::kTokens), p.Int("n", 8)}) {
    r->Live(p.Int("live", p.Int("t", 4)), 0, 0);
    if (p.Has("scalar")) type_ = Type(p.dtype, {});
  }

  void Record() {
    ir::Builder& b = r_->b();
    if (p_.op == Op::kSelect) {
      const Value mask = r_->Random("mask", type_.WithDType(DType::kI1));
      r_->Out(b.Emit(p_.op, {mask, Input("x"), Input("y")}));
    } else if (p_.op == Op::kConvert || p_.op == Op::kBitcastConvert) {
      const Value x = Input("x");
      for (const std::string& to : p_.List("to")) {
        r_->Out(b.Emit(p_.op, {x}, {}, {type_.WithDType(*ParseDType(to))}));
      }
    } else if (p_.op == Op::kCompare) {
      const Value x = Input("x");
      const Value y = Input("y");
      for (const char* direction : {"eq", "ne", "lt", "le", "gt", "ge"}) r_->Out(b.Compare(x, y, direction));
    } else {
      std::vector<Value> operands = {Input("x")};
      if (InfoOf(p_.op).min_operands == 2) operands.push_back(Input("y"));
      r_->Out(b.Emit(p_.op, operands), {}, CompiledSlack(p_.op));
    }
  }

 private:
  // Random values; with the flag `special`, the ones at the edges among them; with `bits`, 0 and 1 only. `denormals`
  // adds those, which our own backends treat all alike: other compilers flush them or do not.
  Value Input(const std::string& name) {
    Bytes bytes = RandomBytes(type_, 2, &r_->random());
    if (p_.Has("bits")) {
      for (std::byte& byte : bytes) byte &= std::byte{1};
    }
    if (p_.Has("special")) IsFloat(p_.dtype) ? AddFloatEdges(&bytes) : AddIntegerEdges(&bytes);
    return r_->Metadata(name, type_, std::move(bytes));
  }

  void AddFloatEdges(Bytes* bytes) {
    const float inf = std::numeric_limits<float>::infinity();
    const float edges[] = {NAN, inf, -inf, 0.0f, -0.0f, 3e38f, -2.5f, 500.0f, -7e4f, 3e9f, 0.99999994f};
    std::vector<float> values = Decode(p_.dtype, *bytes);
    for (float& value : values) {
      if (r_->random()() % 3 == 0) value = edges[r_->random()() % std::size(edges)];
      if (p_.Has("denormals") && r_->random()() % 6 == 0) value = 1e-41f;
    }
    *bytes = Encode(p_.dtype, values);
  }

  // Of every width: the lowest and the highest, what f32 cannot hold, shifts as wide as the type and wider.
  void AddIntegerEdges(Bytes* bytes) {
    if (p_.dtype == DType::kI1) return;
    const size_t size = SizeOf(p_.dtype);
    const int64_t lowest = std::numeric_limits<int64_t>::min() >> (64 - 8 * size);
    const int64_t edges[] = {lowest, ~lowest, 0, 1, -1, (int64_t{1} << 53) + 1, 16777219, 7, 8, 31, 32, 63, 64};
    for (size_t at = 0; at < bytes->size(); at += size) {
      if (r_->random()() % 3 != 0) continue;
      const int64_t edge = edges[r_->random()() % std::size(edges)];
      std::memcpy(&(*bytes)[at], &edge, size);  // little endian: the low bytes
    }
  }

  const Problem& p_;
  Recorder* r_;
  Type type_;
};

bool IsElementwise(Op op) {
  return InfoOf(op).kind == ir::OpKind::kPrimitive && op <= Op::kBitcastConvert;
}

}  // namespace

bool RecordElementwise(const Problem& p, Recorder* r) {
  if (!IsElementwise(p.op)) return false;
  ElementwiseProblem(p, r).Record();
  return true;
}

}  // namespace deepinfer::conformance
