// How each dtype is stored (T) and computed with (C), and dispatch from a DType to code for it. For src/interp only.
// Floats compute in f32; integers in themselves; i1 is one byte, any nonzero byte is true.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "base/half.h"

namespace deepinfer::interp {

template <class Value>
struct PlainStorage {
  using T = Value;
  using C = Value;
  static C Load(T value) { return value; }
  static T Store(C value) { return value; }
};

template <DType D>
struct Storage;
template <>
struct Storage<DType::kI8> : PlainStorage<int8_t> {};
template <>
struct Storage<DType::kU8> : PlainStorage<uint8_t> {};
template <>
struct Storage<DType::kI32> : PlainStorage<int32_t> {};
template <>
struct Storage<DType::kU32> : PlainStorage<uint32_t> {};
template <>
struct Storage<DType::kI64> : PlainStorage<int64_t> {};
template <>
struct Storage<DType::kF32> : PlainStorage<float> {};
template <>
struct Storage<DType::kI1> {
  using T = uint8_t;
  using C = bool;
  static C Load(T value) { return value != 0; }
  static T Store(C value) { return value ? 1 : 0; }
};
template <>
struct Storage<DType::kF8E4M3> {
  using T = uint8_t;
  using C = float;
  static C Load(T value) { return F8E4M3ToF32(value); }
  static T Store(C value) { return F32ToF8E4M3(value); }
};
template <>
struct Storage<DType::kF16> {
  using T = uint16_t;
  using C = float;
  static C Load(T value) { return F16ToF32(value); }
  static T Store(C value) { return F32ToF16(value); }
};
template <>
struct Storage<DType::kBF16> {
  using T = uint16_t;
  using C = float;
  static C Load(T value) { return BF16ToF32(value); }
  static T Store(C value) { return F32ToBF16(value); }
};

template <DType D>
using DTypeTag = std::integral_constant<DType, D>;

template <class F>
auto DispatchFloat(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF8E4M3:
      return f(DTypeTag<DType::kF8E4M3>());
    case DType::kF16:
      return f(DTypeTag<DType::kF16>());
    case DType::kBF16:
      return f(DTypeTag<DType::kBF16>());
    default:
      return f(DTypeTag<DType::kF32>());
  }
}

template <class F>
auto DispatchInteger(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kI8:
      return f(DTypeTag<DType::kI8>());
    case DType::kU8:
      return f(DTypeTag<DType::kU8>());
    case DType::kI32:
      return f(DTypeTag<DType::kI32>());
    case DType::kU32:
      return f(DTypeTag<DType::kU32>());
    default:
      return f(DTypeTag<DType::kI64>());
  }
}

template <class F>
auto DispatchAny(DType dtype, F&& f) {
  if (dtype == DType::kI1) return f(DTypeTag<DType::kI1>());
  return IsFloat(dtype) ? DispatchFloat(dtype, f) : DispatchInteger(dtype, f);
}

}  // namespace deepinfer::interp
