// The f32 core for AVX2 with FMA and F16C: 8 lanes, tiles of 6 rows x 2 vectors (12 sums, 2 weights, 1 x: 15 of 16
// registers).
#include <immintrin.h>

#include "cpu/kernels/linear/linear_internal.h"

namespace deepinfer::cpu {
namespace {

constexpr int kLanes = 8;
constexpr int kTileRows = 6;
constexpr int kMaxGemvRows = 2;
typedef float VF __attribute__((vector_size(32)));
typedef uint32_t VU __attribute__((vector_size(32)));

__attribute__((always_inline)) inline VF Fma(VF a, VF b, VF c) {
  return _mm256_fmadd_ps(a, b, c);
}
__attribute__((always_inline)) inline VF Broadcast(float value) {
  return _mm256_set1_ps(value);
}
template <class Halves>
__attribute__((always_inline)) inline VF HalfToFloat(Halves halves) {
  return _mm256_cvtph_ps(reinterpret_cast<__m128i>(halves));
}
template <int kOffset>
__attribute__((always_inline)) inline VF NibbleToFloat(VU word) {
  typedef int32_t VSigned __attribute__((vector_size(sizeof(VU))));
  return __builtin_convertvector(reinterpret_cast<VSigned>(word & 15) - kOffset, VF);
}

#define DI_ISA Isa::kAvx2
#define DI_ISA_TEXT "avx2"
#include "cpu/kernels/linear/epilogue.inc"
#include "cpu/kernels/linear/f32_core.inc"

}  // namespace

KernelTable LinearTableAvx2() {
  return {kRows, static_cast<int>(sizeof(kRows) / sizeof(kRows[0]))};
}

}  // namespace deepinfer::cpu
