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

// Lanes 0, 0, 1, 1, ... of the kLanes / 2 floats at p.
DI_INLINE F LoadTwice(const float* p) {
  float halves[kLanes] = {};
  memcpy(halves, p, sizeof halves / 2);
  I lanes;
  for (int i = 0; i < kLanes; ++i) lanes[i] = i / 2;
  return __builtin_shuffle(Load(halves), lanes);
}
DI_INLINE F SwapPairs(F v) {
  I lanes;
  for (int i = 0; i < kLanes; ++i) lanes[i] = i ^ 1;
  return __builtin_shuffle(v, lanes);
}

// Pairs side by side, as llama's GGUF files have them: x * cos + swapped x * (-sin, sin, ...), whose products and sum
// round as those of each element do.
template <class T>
DI_INLINE void RotatePairs(const T* x, T* out, const float* cos, const float* sin, int64_t half) {
  U minus;
  for (int i = 0; i < kLanes; ++i) minus[i] = i % 2 == 0 ? 0x80000000u : 0;
  int64_t i = 0;
  for (; i + kLanes / 2 <= half; i += kLanes / 2) {
    const F v = Load(x + 2 * i), s = (F)((U)LoadTwice(sin + i) ^ minus);
    Store(out + 2 * i, v * LoadTwice(cos + i) + SwapPairs(v) * s);
  }
  for (; i < half; ++i) {
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
