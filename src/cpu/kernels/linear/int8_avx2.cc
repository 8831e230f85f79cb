// The int8 core for AVX2. vpmaddubsw adds two products in 16 bits: with codes of at most 6 bits that is at most
// 2 * 63 * 127, and signed bytes are multiplied as |w| by x with w's sign, at most 2 * 128 * 127: both fit, so nothing
// saturates.
#include <immintrin.h>

#include "cpu/kernels/linear/linear_internal.h"

namespace deepinfer::cpu {
namespace {

#include "cpu/kernels/linear/lanes_avx2.inc"
#include "cpu/kernels/linear/merge_upper.inc"

// 4 rows of one vector: 4 block sums, 4 sums, 4 totals, 1 weight and what a product needs: all of 16 registers.
constexpr int kTileRows = 4;
constexpr int kSignedBias = 0;

template <bool kSigned>
__attribute__((always_inline)) inline VI Dot(VI sum, VU codes, int32_t x) {
  const auto w = reinterpret_cast<__m256i>(codes);
  const __m256i four = _mm256_set1_epi32(x);
  const __m256i pairs =
      kSigned ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(four, w)) : _mm256_maddubs_epi16(w, four);
  const __m256i products = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  return sum + reinterpret_cast<VI>(products);
}

__attribute__((always_inline)) inline VU FourBytes(const uint8_t* p) {
  const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const __m128i second = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 32));
  return reinterpret_cast<VU>(_mm256_set_m128i(_mm_unpackhi_epi16(first, second), _mm_unpacklo_epi16(first, second)));
}

template <Encoding kE>
__attribute__((always_inline)) inline VU LookUp(VU nibbles) {
  constexpr const int8_t* kValues = LayoutOf(kE).codes == Codes::kIq4 ? kIq4Values : kE2m1Doubled;
  const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kValues));
  return reinterpret_cast<VU>(
      _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), reinterpret_cast<__m256i>(nibbles)));
}

#define DI_ISA Isa::kAvx2
#define DI_ISA_TEXT "avx2"
#include "cpu/kernels/linear/epilogue.inc"
#include "cpu/kernels/linear/int8_core.inc"

}  // namespace

KernelTable Int8TableAvx2() {
  return {kRows, static_cast<int>(sizeof(kRows) / sizeof(kRows[0]))};
}

}  // namespace deepinfer::cpu
