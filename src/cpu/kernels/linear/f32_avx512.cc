// The f32 core for AVX-512: 16 lanes, tiles of 12 rows x 2 vectors (24 sums, 2 weights, x from memory: 27 of 32
// registers).
#include <immintrin.h>

#include "cpu/kernels/linear/linear_internal.h"

namespace deepinfer::cpu {
namespace {

#include "cpu/kernels/linear/lanes_avx512.inc"

constexpr int kTileRows = 12;
constexpr int kMaxGemvRows = 4;

__attribute__((always_inline)) inline VF Fma(VF a, VF b, VF c) {
  return _mm512_fmadd_ps(a, b, c);
}
// vpermps takes the low 4 bits of its index and ignores the rest: one instruction for mask, value and conversion.
template <Encoding kE>
__attribute__((always_inline)) inline VF NibbleToFloat(VU word) {
  constexpr PanelLayout kL = LayoutOf(kE);
  VF values;
  for (int i = 0; i < kLanes; ++i) values[i] = static_cast<float>(kL.ValueOf(i));
  return _mm512_permutexvar_ps(reinterpret_cast<__m512i>(word), values);
}

#define DI_ISA Isa::kAvx512
#define DI_ISA_TEXT "avx512"
#include "cpu/kernels/linear/epilogue.inc"
#include "cpu/kernels/linear/f32_core.inc"

}  // namespace

KernelTable LinearTableAvx512() {
  return {kRows, static_cast<int>(sizeof(kRows) / sizeof(kRows[0]))};
}

}  // namespace deepinfer::cpu
