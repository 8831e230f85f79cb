// Elementwise arithmetic on two operands of equal shape, and conversion between element types.
//
// Float operands are computed in f32 and rounded once; i32 wraps. Maximum and minimum give NaN if either operand is
// NaN. Conversions round to nearest even; float to i32 truncates, saturates, and takes NaN to 0. Operands are
// contiguous; out may be an operand of the same element size. The caller splits elements [begin, end) as it likes.
// Thread-safe; allocates nothing.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace deepinfer {

enum class Isa : int;

enum class BinaryOp : uint8_t { kAdd, kSub, kMul, kDiv, kMax, kMin };

using BinaryFn = void (*)(const void* a, const void* b, void* out, int64_t begin, int64_t end);
using ConvertFn = void (*)(const void* in, void* out, int64_t begin, int64_t end);

struct BinaryKernel {
  const char* name = nullptr;
  BinaryFn run = nullptr;  // nullptr: no such kernel
};
struct ConvertKernel {
  const char* name = nullptr;
  ConvertFn run = nullptr;
};

// f32 and bf16: every op; i32: all but kDiv.
BinaryKernel ChooseBinary(Isa isa, BinaryOp op, DType dtype);

// Any pair of f32, bf16, f16 and i32; and any type to itself.
ConvertKernel ChooseConvert(Isa isa, DType from, DType to);

}  // namespace deepinfer
