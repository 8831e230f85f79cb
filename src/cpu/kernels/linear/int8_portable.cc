// The int8 core for any machine: 4 lanes of GCC's vector extensions, 32-bit products.
#include <utility>

#include "cpu/kernels/linear/linear_internal.h"

namespace deepinfer::cpu {
namespace {

#include "cpu/kernels/linear/lanes_portable.inc"
#include "cpu/kernels/linear/merge_upper.inc"

constexpr int kTileRows = 4;
constexpr int kOneRowVectors = 2;
constexpr bool kFourRowsWide = false;
template <Encoding>
constexpr int kNarrowWords = 1;
constexpr int64_t kDecodedRows = kRowChunk;
constexpr int kSignedBias = 0;

template <bool kSigned>
__attribute__((always_inline)) inline VI Dot(VI sum, VU codes, int32_t x) {
  for (int byte = 0; byte < 4; ++byte) {
    const VI w = kSigned ? reinterpret_cast<VI>(codes << (24 - 8 * byte)) >> 24
                         : reinterpret_cast<VI>((codes >> (8 * byte)) & 255);
    sum += w * (static_cast<int32_t>(static_cast<uint32_t>(x) << (24 - 8 * byte)) >> 24);
  }
  return sum;
}

template <Encoding>
__attribute__((always_inline)) inline VU FourBytes(const uint8_t* p) {
  typedef uint16_t Pairs __attribute__((vector_size(kLanes * 2)));
  Pairs first, second;
  __builtin_memcpy(&first, p, sizeof(first));
  __builtin_memcpy(&second, p + 32, sizeof(second));
  return __builtin_convertvector(first, VU) | __builtin_convertvector(second, VU) << 16;
}

template <Encoding kE>
__attribute__((always_inline)) inline VU LookUp(VU nibbles) {
  constexpr const int8_t* kValues = LayoutOf(kE).codes == Codes::kIq4 ? kIq4Values : kE2m1Doubled;
  VU codes = {};
  for (int i = 0; i < kLanes; ++i) {
    uint32_t word = 0;
    for (int byte = 0; byte < 4; ++byte) {
      word |= uint32_t{static_cast<uint8_t>(kValues[(nibbles[i] >> (8 * byte)) & 15])} << (8 * byte);
    }
    codes[i] = word;
  }
  return codes;
}

#define DI_ISA Isa::kPortable
#define DI_ISA_TEXT "portable"
#include "cpu/kernels/linear/codes8.inc"
#include "cpu/kernels/linear/epilogue.inc"
#include "cpu/kernels/linear/integer_core.inc"

constexpr LinearKernel kRows[] = {DI_BYTE_ENCODINGS(DI_INT8_ROWS) DI_SMALL_ENCODINGS(DI_INT8_ROWS)};

}  // namespace

KernelTable Int8TablePortable() {
  return {kRows, static_cast<int>(sizeof(kRows) / sizeof(kRows[0]))};
}

}  // namespace deepinfer::cpu
