// What the per-ISA kernel files and linear.cc share: scratch geometry and the tables. Internal to this folder.
//
// Included by files compiled for one instruction set: no inline functions with external linkage. Thread-safe, no state.
#pragma once

#include <cstdint>

#include "cpu/kernels/linear/linear.h"
#include "cpu/kernels/linear/packed_layout.h"

namespace deepinfer::cpu {

// Rows processed together: bounds the scratch. Weights are decoded once per so many rows, which costs under 5 %.
static constexpr int64_t kRowChunk = 256;
// Decoded weights of 32 columns held in L1 (half of 32 KB): 256 k as bf16 in the bf16 core, 128 k as f32 in the f32 core.
static constexpr int64_t kDecodedBytes = 16384;
static constexpr int64_t kBf16ChunkBlocks = 8;
static constexpr int64_t kF32ChunkBlocks = 4;
// Scales (two per block) and minima of a chunk, as f32.
static constexpr int64_t kScaleBytes = kBf16ChunkBlocks * 3 * kPanelColumns * 4;
// Scratch: decoded weights, scales, sums of kRowChunk rows, then prepared rows.
static constexpr int64_t kSumsOffset = kDecodedBytes + kScaleBytes;

// Bytes of one prepared row.
[[maybe_unused]] static constexpr int64_t PreparedRowBytes(bool bf16_core, Encoding encoding, DType act, int64_t k) {
  const int64_t padded = BlocksOf(k) * kBlockK;
  if (bf16_core) {
    if (LayoutOf(encoding).has_min()) return BlocksOf(k) * 4;
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

}  // namespace deepinfer::cpu
