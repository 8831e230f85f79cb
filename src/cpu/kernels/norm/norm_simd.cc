// Compiled once per instruction set; see simd.h.
#include "cpu/kernels/norm/norm.h"
#include "cpu/kernels/simd.h"

namespace deepinfer {
namespace {

// Four sums hide the latency of FMA; element i always goes to sum (i / kLanes) % 4.
struct SquareSum {
  F parts[4] = {};
  DI_INLINE float Total() const { return ReduceAdd((parts[0] + parts[1]) + (parts[2] + parts[3])); }
};

template <class T>
float SumOfSquares(const T* x, int64_t width) {
  SquareSum sum;
  int64_t i = 0;
  for (; i + 4 * kLanes <= width; i += 4 * kLanes) {
    for (int part = 0; part < 4; ++part) {
      const F v = Load(x + i + part * kLanes);
      sum.parts[part] = Fma(v, v, sum.parts[part]);
    }
  }
  for (int part = 0; i < width; i += kLanes, ++part) {
    const F v = i + kLanes <= width ? Load(x + i) : LoadPart(x + i, width - i, 0.0f);
    sum.parts[part] = Fma(v, v, sum.parts[part]);
  }
  return sum.Total();
}

template <class T>
void NormRow(const RmsNormArgs& args, const T* x, T* out) {
  const int64_t width = args.width;
  const float mean = SumOfSquares(x, width) / static_cast<float>(width);
  const float scale = 1.0f / __builtin_sqrtf(mean + args.eps);
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    Store(out + i, Load(x + i) * scale * (Load(args.weight + i) + args.offset));
  }
  if (i < width) {
    const F v = LoadPart(x + i, width - i, 0.0f) * scale * (LoadPart(args.weight + i, width - i, 0.0f) + args.offset);
    StorePart(out + i, v, width - i);
  }
}

template <class T>
void RmsNorm(const RmsNormArgs& args, int64_t begin, int64_t end) {
  const T* x = static_cast<const T*>(args.x);
  T* out = static_cast<T*>(args.out);
  for (int64_t row = begin; row < end; ++row) NormRow(args, x + row * args.x_stride, out + row * args.out_stride);
}

template <class T>
void AddRmsNorm(const AddRmsNormArgs& args, int64_t begin, int64_t end) {
  const int64_t width = args.norm.width;
  for (int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(args.norm.x) + row * args.norm.x_stride;
    const T* residual = static_cast<const T*>(args.residual) + row * args.residual_stride;
    T* sum = static_cast<T*>(args.sum) + row * args.sum_stride;
    int64_t i = 0;
    for (; i + kLanes <= width; i += kLanes) Store(sum + i, Load(residual + i) + Load(x + i));
    if (i < width) {
      const F v = LoadPart(residual + i, width - i, 0.0f) + LoadPart(x + i, width - i, 0.0f);
      StorePart(sum + i, v, width - i);
    }
    NormRow(args.norm, sum, static_cast<T*>(args.norm.out) + row * args.norm.out_stride);
  }
}

}  // namespace

extern const NormKernels DI_ISA_SYMBOL(kNormF32);
extern const NormKernels DI_ISA_SYMBOL(kNormBf16);
const NormKernels DI_ISA_SYMBOL(kNormF32) = {DI_ISA_NAME("rms_norm_f32"), RmsNorm<float>, AddRmsNorm<float>};
const NormKernels DI_ISA_SYMBOL(kNormBf16) = {DI_ISA_NAME("rms_norm_bf16"), RmsNorm<Bf16>, AddRmsNorm<Bf16>};

}  // namespace deepinfer
