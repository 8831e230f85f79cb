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
#include "cpu/kernels/linear/merge_upper.inc"

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

// Pair d of kLanes columns, as packed: the even k in the low half of a lane, the odd one above. What a shift brings
// from the other half is outside the mask.
template <Encoding kE>
DI_INLINE VU CodesAt(const uint8_t* group, int lane, int d) {
  constexpr PanelLayout kL = LayoutOf(kE);
  if constexpr (kL.bits == 8) {
    const auto* pairs = reinterpret_cast<const __m128i*>(group + d * 32 + lane * 2);
    return reinterpret_cast<VU>(_mm256_cvtepi8_epi16(_mm_loadu_si128(pairs)));
  } else {
    constexpr int kLow = kL.low_bits(), kUpper = kL.upper_bits(), kLowPairs = 16 / kLow;
    constexpr uint32_t kBoth = 0x00010001u;
    VU codes = Load<VU>(group + d / kLowPairs * 64 + lane * 4) >> (d % kLowPairs * kLow);
    codes &= ((1u << kLow) - 1) * kBoth;
    if constexpr (kUpper > 0) {
      constexpr int kPairs = 16 / kUpper;
      const VU upper = Load<VU>(group + kL.low_bytes() + d / kPairs * 64 + lane * 4);
      codes |= MoveBits(upper, d % kPairs * kUpper, kLow) & ((((1u << kUpper) - 1) << kLow) * kBoth);
    }
    if constexpr (kL.codes != Codes::kInteger) {
      const auto index = reinterpret_cast<__m256i>(codes | (0x8000u * kBoth));  // its high bytes look up zero
      codes = reinterpret_cast<VU>(_mm256_shuffle_epi8(Load<__m256i>(kByteTable<kE>.value), index));
    }
    return codes;
  }
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
