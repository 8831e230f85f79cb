// The int8 core for AVX2, of codes below 8 bits. vpmaddubsw adds two products in 16 bits: with unsigned codes of at
// most 6 bits that is at most 2 * 63 * 127, and signed ones are multiplied as |w| by x with w's sign, at most 2 * 127 *
// 127: both fit, so nothing saturates. Of small codes several such sums fit (kNarrowWords): a block of 4 bits is
// widened once, not 8 times.
#include <immintrin.h>

#include <utility>

#include "cpu/kernels/linear/linear_internal.h"

namespace deepinfer::cpu {
namespace {

#include "cpu/kernels/linear/lanes_avx2.inc"
#include "cpu/kernels/linear/merge_upper.inc"

constexpr int kTileRows = 4;
constexpr int kOneRowVectors = 4;
constexpr bool kFourRowsWide = false;
constexpr int64_t kDecodedRows = 4;
constexpr int kSignedBias = 0;

constexpr int Largest(PanelLayout layout) {
  int largest = 0;
  for (int code = 0; code < 1 << layout.bits; ++code) {
    const int value = layout.codes == Codes::kInteger ? code : layout.ValueOf(code);
    largest = value > largest ? value : -value > largest ? -value : largest;
  }
  return largest;
}
// As many words of two products of a code and 127 as fit 16 bits, of 1, 2, 4 and 8.
constexpr int WordsOf(int most) {
  if (most < 1) __builtin_unreachable();  // not even one fits: no constant
  return most >= 8 ? 8 : most >= 4 ? 4 : most >= 2 ? 2 : 1;
}
template <Encoding kE>
constexpr int kNarrowWords = WordsOf(32767 / (2 * 127 * Largest(LayoutOf(kE))));

template <bool kSigned>
__attribute__((always_inline)) inline VI PairProducts(VU codes, int32_t x) {
  const auto w = reinterpret_cast<__m256i>(codes);
  const __m256i four = _mm256_set1_epi32(x);
  return reinterpret_cast<VI>(kSigned ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(four, w))
                                      : _mm256_maddubs_epi16(w, four));
}
__attribute__((always_inline)) inline VI AddNarrow(VI a, VI b) {
  a = reinterpret_cast<VI>(_mm256_add_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
  DI_IN_ORDER(a);
  return a;
}
__attribute__((always_inline)) inline VI AddPairs(VI sum, VI pairs) {
  sum += reinterpret_cast<VI>(_mm256_madd_epi16(reinterpret_cast<__m256i>(pairs), _mm256_set1_epi16(1)));
  DI_IN_ORDER(sum);
  return sum;
}
template <bool kSigned>
__attribute__((always_inline)) inline VI Dot(VI sum, VU codes, int32_t x) {
  return AddPairs(sum, PairProducts<kSigned>(codes, x));
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
#include "cpu/kernels/linear/codes8.inc"
#include "cpu/kernels/linear/epilogue.inc"
#include "cpu/kernels/linear/integer_core.inc"

// Eight-bit codes have faster kernels with the same bits in int16_avx2.cc.
constexpr LinearKernel kRows[] = {DI_SMALL_ENCODINGS(DI_INT8_ROWS)};

}  // namespace

KernelTable Int8TableAvx2() {
  return {kRows, static_cast<int>(sizeof(kRows) / sizeof(kRows[0]))};
}

}  // namespace deepinfer::cpu
