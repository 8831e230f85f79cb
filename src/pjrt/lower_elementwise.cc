// Elementwise primitives, conversions of bits, constants and iota.
#include <fmt/format.h>

#include "pjrt/lower.h"
#include "pjrt/mlir_text.h"

namespace deepinfer::pjrt {
namespace {

bool IsSigned(DType dtype) {
  return dtype == DType::kI8 || dtype == DType::kI32 || dtype == DType::kI64;
}

}  // namespace

Val LowerUnary(const LowerContext& c, const char* op) {
  return c.e.Convert(c.e.Same(op, {c.e.Widen(c.v[0])}), c.v[0].type.dtype);
}

Val LowerBinary(const LowerContext& c, const char* op) {
  const Val a = c.e.Widen(c.v[0]);
  const Val b = c.e.Widen(c.v[1]);
  return c.e.Convert(c.e.Same(op, {a, b}), c.v[0].type.dtype);
}

Val LowerNegAbs(const LowerContext& c) {
  const bool abs = c.node.op == ir::Op::kAbs;
  const DType dtype = c.v[0].type.dtype;
  if (abs && !IsFloat(dtype) && !IsSigned(dtype)) return c.v[0];
  return LowerUnary(c, abs ? "stablehlo.abs" : "stablehlo.negate");
}

// By zero: -1, and the dividend remains. The lowest integer by -1 wraps.
Val LowerDivRem(const LowerContext& c) {
  const bool rem = c.node.op == ir::Op::kRem;
  const char* op = rem ? "stablehlo.remainder" : "stablehlo.divide";
  const Val& a = c.v[0];
  const Val& b = c.v[1];
  if (IsFloat(a.type.dtype)) return LowerBinary(c, op);
  Emitter& e = c.e;
  const Val one = e.SplatInt(a.type, 1);
  const Val zero = e.SplatInt(a.type, 0);
  const Val ones = e.SplatInt(a.type, -1);  // all bits set, also of an unsigned type
  const Val by_zero = e.Compare(b, zero, "eq");
  Val divisor = e.Select(by_zero, one, b);
  if (!IsSigned(a.type.dtype)) return e.Select(by_zero, rem ? a : ones, e.Same(op, {a, divisor}));
  const Val by_minus_one = e.Compare(b, ones, "eq");
  divisor = e.Select(by_minus_one, one, divisor);
  const Val plain = e.Same(op, {a, divisor});
  const Val signed_result = e.Select(by_minus_one, rem ? zero : e.Same("stablehlo.negate", {a}), plain);
  return e.Select(by_zero, rem ? a : ones, signed_result);
}

Val LowerShiftRight(const LowerContext& c) {
  return LowerBinary(
      c, IsSigned(c.v[0].type.dtype) ? "stablehlo.shift_right_arithmetic" : "stablehlo.shift_right_logical");
}

// i1 lies in a byte here and is one bit there.
Val LowerBitcast(const LowerContext& c) {
  const Val& x = c.v[0];
  const DType to = c.types[0].dtype;
  if (x.type.dtype == to) return x;
  const ir::Type bytes = x.type.WithDType(DType::kI8);
  if (x.type.dtype == DType::kI1) {
    const Val byte = c.e.Convert(x, DType::kI8);
    return to == DType::kI8 ? byte : c.e.Emit("stablehlo.bitcast_convert", {byte}, c.types[0]);
  }
  if (to == DType::kI1) {
    const Val byte = x.type.dtype == DType::kI8 ? x : c.e.Emit("stablehlo.bitcast_convert", {x}, bytes);
    return c.e.Convert(byte, DType::kI1);
  }
  return c.e.Emit("stablehlo.bitcast_convert", {x}, c.types[0]);
}

Val LowerConstant(const LowerContext& c) {
  return c.e.Constant(c.types[0], std::get<ir::Bytes>(c.node.attrs.at("value")));
}

// Counted in i32 and rounded: a narrow float cannot count far.
Val LowerIota(const LowerContext& c) {
  const ir::Type& type = c.types[0];
  const int64_t dim = c.node.Int("dim");
  if (!IsFloat(type.dtype)) return c.e.Iota(type, dim);
  return c.e.Convert(c.e.Convert(c.e.Iota(type.WithDType(DType::kI32), dim), DType::kF32), type.dtype);
}

}  // namespace deepinfer::pjrt
