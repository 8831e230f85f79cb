// The int16 core for AVX2: vpmaddwd adds two products of 16 bits in 32, twice as many products as FMA makes of f32.
//
// The largest sums of a block, 32 * 2^15 * 255 of biased codes beside what they start from, fit 32 bits. `int8`
// numerics with 8-bit codes are here, too: their products leave no room in 16 bits, and integers of 8 bits in lanes of
// 16 have the same sums.
#include <immintrin.h>

#include "cpu/kernels/linear/linear_internal.h"

namespace deepinfer::cpu {
namespace {

#include "cpu/kernels/linear/lanes_avx2.inc"

constexpr int kXBits = 16;
constexpr int kTileRows = 4;
constexpr int kOneRowVectors = 4;
constexpr bool kFourRowsWide = true;
template <Encoding>
constexpr int kNarrowWords = 1;
constexpr int64_t kDecodedRows = 4;

#define DI_ISA Isa::kAvx2
#define DI_ISA_TEXT "avx2"
#include "cpu/kernels/linear/byte_table.inc"
#include "cpu/kernels/linear/epilogue.inc"
#include "cpu/kernels/linear/scales.inc"

[[maybe_unused]] constexpr bool IsSigned(const PanelLayout&) {
  return true;
}
[[maybe_unused]] constexpr int OffsetOf(const PanelLayout& layout) {
  return layout.codes != Codes::kInteger ? kLookUpBias : layout.offset;
}

template <bool kSigned>
DI_INLINE VI Dot(VI sum, VU codes, int32_t x) {
  sum += reinterpret_cast<VI>(_mm256_madd_epi16(reinterpret_cast<__m256i>(codes), _mm256_set1_epi32(x)));
  DI_IN_ORDER(sum);
  return sum;
}

DI_INLINE __m256i LoadWords(const uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

// Moves bit `from` of every 16-bit lane to bit `to`.
DI_INLINE __m256i MoveBits(__m256i words, int from, int to) {
  return from > to ? _mm256_srli_epi16(words, from - to) : from < to ? _mm256_slli_epi16(words, to - from) : words;
}

// Pair d of kLanes columns, as packed: the even k in the low half of a lane, the odd one above.
template <Encoding kE>
DI_INLINE VU CodesAt(const uint8_t* group, int lane, int d) {
  constexpr PanelLayout kL = LayoutOf(kE);
  __m256i codes;
  if constexpr (kL.bits == 8) {
    codes = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(group + d * 32 + lane * 2)));
  } else {
    constexpr int kLow = kL.low_bits(), kUpper = kL.upper_bits(), kLowPairs = 16 / kLow;
    codes = MoveBits(LoadWords(group + d / kLowPairs * 64 + lane * 4), d % kLowPairs * kLow, 0);
    codes = _mm256_and_si256(codes, _mm256_set1_epi16((1 << kLow) - 1));
    if constexpr (kUpper > 0) {
      constexpr int kPairs = 16 / kUpper;
      const __m256i line = LoadWords(group + kL.low_bytes() + d / kPairs * 64 + lane * 4);
      const __m256i upper = MoveBits(line, d % kPairs * kUpper, kLow);
      codes = _mm256_or_si256(codes, _mm256_and_si256(upper, _mm256_set1_epi16(((1 << kUpper) - 1) << kLow)));
    }
    if constexpr (kL.codes != Codes::kInteger) {
      const __m256i index = _mm256_or_si256(codes, _mm256_set1_epi16(static_cast<int16_t>(0x8000)));  // high byte: 0
      codes = _mm256_shuffle_epi8(LoadWords(kByteTable<kE>.value), index);
    }
  }
  return reinterpret_cast<VU>(codes);
}

// Writes the 32 integers of a block of x; their order is that of the codes.
template <int kLowBits>
DI_INLINE void StoreCodes(const VI* q, uint8_t* codes) {
  for (int i = 0; i < kBlockK / 16; ++i) {
    const __m256i pairs =
        _mm256_packs_epi32(reinterpret_cast<__m256i>(q[2 * i]), reinterpret_cast<__m256i>(q[2 * i + 1]));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + 32 * i), _mm256_permute4x64_epi64(pairs, 0xd8));
  }
}

#include "cpu/kernels/linear/integer_core.inc"

#define DI_NATIVE_ROW(encoding, text) \
  DI_INTEGER_ROW(encoding, text ".bf16.int16", DType::kBF16, Grid::kPower, Numerics::kNative)
constexpr LinearKernel kRows[] = {DI_BYTE_ENCODINGS(DI_NATIVE_ROW) DI_SMALL_ENCODINGS(DI_NATIVE_ROW)
                                      DI_BYTE_ENCODINGS(DI_INT8_ROWS)};
#undef DI_NATIVE_ROW

}  // namespace

KernelTable Int16TableAvx2() {
  return {kRows, static_cast<int>(sizeof(kRows) / sizeof(kRows[0]))};
}

}  // namespace deepinfer::cpu
