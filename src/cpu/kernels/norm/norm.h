// RMS norm: out = x * rsqrt(mean(x^2) + eps) * (weight + offset) over rows; and the same after a residual sum.
//
// Math in f32, one rounding to the activation type at the end. Rows are `width` contiguous elements, `stride` elements
// apart; a per-head norm is rows = tokens * heads. The caller splits rows [begin, end) between threads as it likes: a
// row's bits depend on the row alone. Outputs may be their inputs (same start, same stride). Thread-safe; allocates
// nothing. Source: Zhang and Sennrich 2019, "Root Mean Square Layer Normalization".
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/numerics.h"

namespace deepinfer {

enum class Isa : int;

struct RmsNormArgs {
  const void* x = nullptr;
  int64_t x_stride = 0;
  const float* weight = nullptr;  // [width]
  void* out = nullptr;
  int64_t out_stride = 0;
  int64_t width = 0;
  float eps = 0;
  float offset = 0;  // 1 for models that store weight - 1
};

// sum = round(residual + x) is stored, then normed as it was stored.
struct AddRmsNormArgs {
  RmsNormArgs norm;
  const void* residual = nullptr;
  int64_t residual_stride = 0;
  void* sum = nullptr;
  int64_t sum_stride = 0;
};

struct NormKernels {
  const char* name;  // "rms_norm_bf16_Avx512"
  void (*rms_norm)(const RmsNormArgs& args, int64_t begin, int64_t end);
  void (*add_rms_norm)(const AddRmsNormArgs& args, int64_t begin, int64_t end);
};

// Activations f32 or bf16; nullptr for others.
const NormKernels* ChooseNorm(Isa isa, DType activation, Numerics numerics = Numerics::kNative);

}  // namespace deepinfer
