// The int8 core for AVX-512 with VNNI and VBMI: vpdpbusd multiplies unsigned codes by signed x, four products a lane.
#include <immintrin.h>

#include <utility>

#include "cpu/kernels/linear/linear_internal.h"

namespace deepinfer::cpu {
namespace {

#include "cpu/kernels/linear/byte_table.inc"
#include "cpu/kernels/linear/lanes_avx512.inc"

// 12 rows of one vector: 12 block sums, 12 sums, 1 weight, tables and masks: 28 of 32 registers.
constexpr int kTileRows = 12;
constexpr int kOneRowVectors = 2;
constexpr bool kFourRowsWide = true;
template <Encoding>
constexpr int kNarrowWords = 1;
constexpr int64_t kDecodedRows = kRowChunk;
constexpr int kSignedBias = kLookUpBias;

template <bool kSigned>
__attribute__((always_inline)) inline VI Dot(VI sum, VU codes, int32_t x) {
  return reinterpret_cast<VI>(
      _mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(codes), _mm512_set1_epi32(x)));
}

// 16-bit pairs of 16 columns, then the next pairs of the same columns: one shuffle brings a column's four bytes
// together.
template <Encoding>
__attribute__((always_inline)) inline VU FourBytes(const uint8_t* p) {
  alignas(64) static constexpr uint16_t kOrder[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i pairs = _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), _mm512_loadu_si512(p));
  return reinterpret_cast<VU>(pairs) ^ 0x80808080u;
}

template <Encoding kE>
__attribute__((always_inline)) inline VU LookUp(VU nibbles) {
  return reinterpret_cast<VU>(
      _mm512_shuffle_epi8(_mm512_load_si512(kByteTable<kE>.value), reinterpret_cast<__m512i>(nibbles)));
}

// For each byte of a qword of two lanes: the bit of `upper` where the eight bits start that hold the upper bits of its
// code at their place above the low ones. from_first: of byte 0 (and 2, in the high half), from_second: of byte 1
// and 3.
__attribute__((always_inline)) inline __m512i Starts(int low, int from_first, int from_second) {
  int64_t starts = 0;
  for (int byte = 0; byte < 8; ++byte) {
    const int base = byte / 4 * 32 + byte % 4 / 2 * 16;
    const int64_t start = (base + (byte % 2 == 0 ? from_first : from_second) - low) & 63;
    starts |= start << (8 * byte);
  }
  return _mm512_set1_epi64(starts);
}

template <int kLow, int kUpper>
__attribute__((always_inline)) inline VU MergeUpper(VU word, VU upper, int from_first, int from_second) {
  const __m512i moved =
      _mm512_multishift_epi64_epi8(Starts(kLow, from_first, from_second), reinterpret_cast<__m512i>(upper));
  const __m512i mask = _mm512_set1_epi8(((1 << kUpper) - 1) << kLow);
  return reinterpret_cast<VU>(_mm512_ternarylogic_epi32(reinterpret_cast<__m512i>(word), moved, mask, 0xf8));  // a|b&c
}

#define DI_ISA Isa::kAvx512
#define DI_ISA_TEXT "avx512"
#include "cpu/kernels/linear/codes8.inc"
#include "cpu/kernels/linear/epilogue.inc"
#include "cpu/kernels/linear/integer_core.inc"

constexpr LinearKernel kRows[] = {DI_BYTE_ENCODINGS(DI_INT8_ROWS) DI_SMALL_ENCODINGS(DI_INT8_ROWS)};

}  // namespace

KernelTable Int8TableAvx512() {
  return {kRows, static_cast<int>(sizeof(kRows) / sizeof(kRows[0]))};
}

}  // namespace deepinfer::cpu
