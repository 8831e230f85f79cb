// Compiled once per instruction set; see simd.h. No FMA here: the products round as the primitives' do.
#include <utility>

#include "cpu/kernels/rope/rope.h"
#include "cpu/kernels/simd.h"

namespace deepinfer {
namespace {

template <size_t... kLane>
DI_INLINE F Doubled(F v, std::index_sequence<kLane...>) {
  return __builtin_shufflevector(v, v, (kLane / 2)...);
}
template <size_t... kLane>
DI_INLINE F PairsSwapped(F v, std::index_sequence<kLane...>) {
  return __builtin_shufflevector(v, v, (kLane ^ 1)...);
}
using Lanes = std::make_index_sequence<kLanes>;

// Lanes 0, 0, 1, 1, ... of the kLanes / 2 floats at p.
DI_INLINE F LoadTwice(const float* p) {
  float halves[kLanes] = {};
  memcpy(halves, p, sizeof halves / 2);
  return Doubled(Load(halves), Lanes());
}
DI_INLINE F SwapPairs(F v) {
  return PairsSwapped(v, Lanes());
}

// A token's heads, one after another, and its row of the table.
template <class T>
struct TokenRow {
  const T* x;
  T* out;
  int64_t heads, head_size, half;
  const float *cos, *sin;
};

// In both, the part of the table in registers turns that part of every head.
template <class T>
DI_INLINE void RotateHalves(const TokenRow<T>& row) {
  int64_t i = 0;
  for (; i + kLanes <= row.half; i += kLanes) {
    const F c = Load(row.cos + i), s = Load(row.sin + i);
    for (int64_t at = i; at < row.heads * row.head_size; at += row.head_size) {
      const F a = Load(row.x + at), b = Load(row.x + at + row.half);
      Store(row.out + at, a * c - b * s);
      Store(row.out + at + row.half, b * c + a * s);
    }
  }
  const int64_t count = row.half - i;
  if (count == 0) return;
  const F c = LoadPart(row.cos + i, count, 0.0f), s = LoadPart(row.sin + i, count, 0.0f);
  for (int64_t at = i; at < row.heads * row.head_size; at += row.head_size) {
    const F a = LoadPart(row.x + at, count, 0.0f), b = LoadPart(row.x + at + row.half, count, 0.0f);
    StorePart(row.out + at, a * c - b * s, count);
    StorePart(row.out + at + row.half, b * c + a * s, count);
  }
}

// Pairs side by side, as llama's GGUF files have them: x * cos + swapped x * (-sin, sin, ...), whose products and sum
// round as those of each element do.
template <class T>
DI_INLINE void RotatePairs(const TokenRow<T>& row) {
  U minus;
  for (int i = 0; i < kLanes; ++i) minus[i] = i % 2 == 0 ? 0x80000000u : 0;
  int64_t i = 0;
  for (; i + kLanes / 2 <= row.half; i += kLanes / 2) {
    const F c = LoadTwice(row.cos + i), s = (F)((U)LoadTwice(row.sin + i) ^ minus);
    for (int64_t at = 2 * i; at < row.heads * row.head_size; at += row.head_size) {
      const F v = Load(row.x + at);
      Store(row.out + at, v * c + SwapPairs(v) * s);
    }
  }
  for (; i < row.half; ++i) {
    for (int64_t at = 2 * i; at < row.heads * row.head_size; at += row.head_size) {
      const F pair = LoadPart(row.x + at, 2, 0.0f);
      F turned{};
      turned[0] = pair[0] * row.cos[i] - pair[1] * row.sin[i];
      turned[1] = pair[1] * row.cos[i] + pair[0] * row.sin[i];
      StorePart(row.out + at, turned, 2);
    }
  }
}

template <class T>
void Rope(const RopeArgs& args, int64_t begin, int64_t end) {
  const int64_t rest = args.head_size - 2 * args.half;
  for (int64_t token = begin; token < end; ++token) {
    const TokenRow<T> row = {static_cast<const T*>(args.x) + token * args.x_stride,
                             static_cast<T*>(args.out) + token * args.out_stride,
                             args.heads,
                             args.head_size,
                             args.half,
                             args.cos + token * args.half,
                             args.sin + token * args.half};
    if (args.interleaved) {
      RotatePairs(row);
    } else {
      RotateHalves(row);
    }
    if (rest == 0 || row.x == row.out) continue;
    for (int64_t at = 2 * args.half; at < args.heads * args.head_size; at += args.head_size) {
      memcpy(row.out + at, row.x + at, rest * sizeof(T));
    }
  }
}

}  // namespace

extern const RopeKernels DI_ISA_SYMBOL(kRopeF32);
extern const RopeKernels DI_ISA_SYMBOL(kRopeBf16);
const RopeKernels DI_ISA_SYMBOL(kRopeF32) = {DI_ISA_NAME("rope_f32"), Rope<float>};
const RopeKernels DI_ISA_SYMBOL(kRopeBf16) = {DI_ISA_NAME("rope_bf16"), Rope<Bf16>};

}  // namespace deepinfer
