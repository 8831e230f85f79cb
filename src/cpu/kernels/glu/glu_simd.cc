// Compiled once per instruction set; see simd.h.
#include "cpu/kernels/glu/glu.h"
#include "cpu/kernels/simd.h"

namespace deepinfer {
namespace {

struct Silu {
  DI_INLINE static F Of(F x) { return x / (1.0f + Exp(-x)); }
};

// x/2 (1 + tanh(u)) = x / (1 + e^-2u), which does not cancel where tanh(u) is near -1.
struct GeluTanh {
  DI_INLINE static F Of(F x) {
    const F u = 0.7978845608f * (x + 0.044715f * (x * x * x));
    return x / (1.0f + Exp(-2.0f * u));
  }
};

template <class Activation, class T>
void Glu(const GluArgs& args, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const T* gate = static_cast<const T*>(args.gate) + row * args.gate_stride;
    const T* up = static_cast<const T*>(args.up) + row * args.up_stride;
    T* out = static_cast<T*>(args.out) + row * args.out_stride;
    int64_t i = 0;
    for (; i + kLanes <= args.width; i += kLanes) Store(out + i, Activation::Of(Load(gate + i)) * Load(up + i));
    if (i < args.width) {
      const int64_t rest = args.width - i;
      StorePart(out + i, Activation::Of(LoadPart(gate + i, rest, 0.0f)) * LoadPart(up + i, rest, 0.0f), rest);
    }
  }
}

}  // namespace

extern const GluKernels DI_ISA_SYMBOL(kGluF32);
extern const GluKernels DI_ISA_SYMBOL(kGluBf16);
const GluKernels DI_ISA_SYMBOL(kGluF32) = {DI_ISA_NAME("glu_f32"), Glu<Silu, float>, Glu<GeluTanh, float>};
const GluKernels DI_ISA_SYMBOL(kGluBf16) = {DI_ISA_NAME("glu_bf16"), Glu<Silu, Bf16>, Glu<GeluTanh, Bf16>};

}  // namespace deepinfer
