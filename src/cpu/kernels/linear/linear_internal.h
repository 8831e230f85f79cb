// What the per-ISA kernel files and linear.cc share: scratch geometry and the tables. Internal to this folder.
//
// Included by files compiled for one instruction set: no inline functions with external linkage. Thread-safe, no state.
#pragma once

#include <cstdint>

#include "cpu/kernels/linear/linear.h"
#include "cpu/kernels/linear/packed_layout.h"

namespace deepinfer::cpu {

// Rows processed together: bounds the scratch, and keeps their x in L2 (256 x 1536 in bf16: 768 KB).
static constexpr int64_t kRowChunk = 256;
// f32 and integer cores: 128 k of 32 columns decoded to f32 (or words of codes) in half of a 32 KB L1.
static constexpr int64_t kChunkBlocks = 4;
static constexpr int64_t kDecodedBytes = kChunkBlocks * kBlockK * kPanelColumns * 4;

// The integer cores prepare tiles of this many rows; bytes of one row's share of a block: 32 codes, their scale, and a
// start for each half that has scales of its own.
static constexpr int64_t kIntegerTileRows = 4;
[[maybe_unused]] static constexpr int64_t IntegerRowBytesPerBlock(int64_t bits, int64_t halves) {
  return kBlockK * bits / 8 + 4 + 4 * halves;
}

// Scratch of the f32 and the integer cores: {decoded weights; sums of a chunk of rows, in whole tiles; prepared rows};
// of the bf16 core: {prepared rows}.
[[maybe_unused]] static constexpr int64_t PreparedOffset(bool bf16_core, int64_t max_rows) {
  if (bf16_core) return 0;
  const int64_t rows = max_rows < kRowChunk ? max_rows : kRowChunk;
  return kDecodedBytes + (rows + kIntegerTileRows - 1) / kIntegerTileRows * kIntegerTileRows * kPanelColumns * 4;
}

// Bytes of one prepared row.
[[maybe_unused]] static constexpr int64_t PreparedRowBytes(bool bf16_core, Encoding encoding, DType act, int64_t k) {
  const int64_t padded = BlocksOf(k) * kBlockK;
  if (bf16_core) {
    if (LayoutOf(encoding).has_min()) return BlocksOf(k) * LayoutOf(encoding).scales_per_block() * 4;
    return padded == k ? 0 : padded * 2;
  }
  return act == DType::kF32 && padded == k ? 0 : padded * 4;
}

struct KernelTable {
  const LinearKernel* rows;
  int count;
};
KernelTable LinearTablePortable();
KernelTable LinearTableAvx2();
KernelTable LinearTableAvx512();
KernelTable LinearTableAvx512Bf16();
KernelTable Int8TablePortable();
KernelTable Int8TableAvx2();
KernelTable Int8TableAvx512();
KernelTable Int16TableAvx2();
KernelTable LinearTableAmx();
KernelTable OrderedTablePortable();  // of portable numerics
KernelTable OrderedTableAvx2();
KernelTable OrderedTableAvx512();

}  // namespace deepinfer::cpu
