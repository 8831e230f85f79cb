// Compiled once per instruction set; see simd.h. No FMA here: the products round as the primitives' do.
#include "cpu/kernels/rope/rope.h"
#include "cpu/kernels/simd.h"

namespace deepinfer {
namespace {

template <class T>
DI_INLINE void RotateHalves(const T* x, T* out, const float* cos, const float* sin, int64_t half) {
  for (int64_t i = 0; i < half; i += kLanes) {
    const int64_t count = half - i;
    if (count >= kLanes) {
      const F a = Load(x + i), b = Load(x + half + i), c = Load(cos + i), s = Load(sin + i);
      Store(out + i, a * c - b * s);
      Store(out + half + i, b * c + a * s);
    } else {
      const F a = LoadPart(x + i, count, 0.0f), b = LoadPart(x + half + i, count, 0.0f);
      const F c = LoadPart(cos + i, count, 0.0f), s = LoadPart(sin + i, count, 0.0f);
      StorePart(out + i, a * c - b * s, count);
      StorePart(out + half + i, b * c + a * s, count);
    }
  }
}

// One pair after the other in the vector's first two lanes: only older checkpoints are interleaved.
template <class T>
DI_INLINE void RotatePairs(const T* x, T* out, const float* cos, const float* sin, int64_t half) {
  for (int64_t i = 0; i < half; ++i) {
    const F pair = LoadPart(x + 2 * i, 2, 0.0f);
    F turned{};
    turned[0] = pair[0] * cos[i] - pair[1] * sin[i];
    turned[1] = pair[1] * cos[i] + pair[0] * sin[i];
    StorePart(out + 2 * i, turned, 2);
  }
}

template <class T>
void Rope(const RopeArgs& args, int64_t begin, int64_t end) {
  const int64_t rest = args.head_size - 2 * args.half;
  for (int64_t token = begin; token < end; ++token) {
    const float* cos = args.cos + token * args.half;
    const float* sin = args.sin + token * args.half;
    for (int64_t head = 0; head < args.heads; ++head) {
      const T* x = static_cast<const T*>(args.x) + token * args.x_stride + head * args.head_size;
      T* out = static_cast<T*>(args.out) + token * args.out_stride + head * args.head_size;
      if (args.interleaved) {
        RotatePairs(x, out, cos, sin, args.half);
      } else {
        RotateHalves(x, out, cos, sin, args.half);
      }
      if (rest > 0 && x != out) memcpy(out + 2 * args.half, x + 2 * args.half, rest * sizeof(T));
    }
  }
}

}  // namespace

extern const RopeKernels DI_ISA_SYMBOL(kRopeF32);
extern const RopeKernels DI_ISA_SYMBOL(kRopeBf16);
const RopeKernels DI_ISA_SYMBOL(kRopeF32) = {DI_ISA_NAME("rope_f32"), Rope<float>};
const RopeKernels DI_ISA_SYMBOL(kRopeBf16) = {DI_ISA_NAME("rope_bf16"), Rope<Bf16>};

}  // namespace deepinfer
