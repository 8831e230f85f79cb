// The f32 core for AVX2 with FMA and F16C: 8 lanes, tiles of 6 rows x 2 vectors (12 sums, 2 weights, 1 x: 15 of 16
// registers).
#include <immintrin.h>

#include "cpu/kernels/linear/linear_internal.h"

namespace deepinfer::cpu {
namespace {

#include "cpu/kernels/linear/lanes_avx2.inc"

constexpr int kTileRows = 6;
constexpr int kMaxGemvRows = 2;

__attribute__((always_inline)) inline VF Fma(VF a, VF b, VF c) {
  return _mm256_fmadd_ps(a, b, c);
}
// vpermps takes the low 3 bits of its index: one look-up for each half of a codebook, chosen by bit 3.
template <Encoding kE>
__attribute__((always_inline)) inline VF NibbleToFloat(VU word) {
  constexpr PanelLayout kL = LayoutOf(kE);
  if constexpr (kL.codes == Codes::kInteger) {
    typedef int32_t VSigned __attribute__((vector_size(sizeof(VU))));
    return __builtin_convertvector(reinterpret_cast<VSigned>(word & 15) - kL.offset, VF);
  } else {
    VF low, high;
    for (int i = 0; i < kLanes; ++i) {
      low[i] = static_cast<float>(kL.ValueOf(i));
      high[i] = static_cast<float>(kL.ValueOf(8 + i));
    }
    const auto index = reinterpret_cast<__m256i>(word);
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, index), _mm256_permutevar8x32_ps(high, index),
                            _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)));
  }
}

// The others have the int16 core.
#define DI_BF16_ENCODINGS(DI_X) DI_X(kF32, "f32") DI_X(kF16, "f16") DI_X(kBF16, "bf16") DI_X(kFP8, "fp8")
#define DI_ISA Isa::kAvx2
#define DI_ISA_TEXT "avx2"
#include "cpu/kernels/linear/epilogue.inc"
#include "cpu/kernels/linear/f32_core.inc"
#include "cpu/kernels/linear/tile_order.inc"

}  // namespace

KernelTable LinearTableAvx2() {
  return {kRows, static_cast<int>(sizeof(kRows) / sizeof(kRows[0]))};
}
KernelTable OrderedTableAvx2() {
  return {kOrderedRows, static_cast<int>(sizeof(kOrderedRows) / sizeof(kOrderedRows[0]))};
}

}  // namespace deepinfer::cpu
