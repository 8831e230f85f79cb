// The f32 core for AVX-512: 16 lanes, tiles of 12 rows x 2 vectors (24 sums, 2 weights, x from memory: 27 of 32
// registers).
#include <immintrin.h>

#include "cpu/kernels/linear/linear_internal.h"

namespace deepinfer::cpu {
namespace {

#include "cpu/kernels/linear/lanes_avx512.inc"

constexpr int kTileRows = 12;
constexpr int kMaxGemvRows = 4;

#define DI_ISA Isa::kAvx512
#define DI_ISA_TEXT "avx512"
#include "cpu/kernels/linear/epilogue.inc"
#include "cpu/kernels/linear/f32_core.inc"
#include "cpu/kernels/linear/tile_order.inc"

}  // namespace

KernelTable LinearTableAvx512() {
  return {kRows, static_cast<int>(sizeof(kRows) / sizeof(kRows[0]))};
}
KernelTable OrderedTableAvx512() {
  return {kOrderedRows, static_cast<int>(sizeof(kOrderedRows) / sizeof(kOrderedRows[0]))};
}

}  // namespace deepinfer::cpu
