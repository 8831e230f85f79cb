// The byte layout of a packed weight: panels of 32 output columns, each a run of blocks of 32 k.
//
// A packed weight is flat and free of pointers: panel p starts at p * PanelBytes. Within a panel, blocks follow each
// other along K. A block is {header; planes of columns 0-15; planes of columns 16-31}; lanes are columns. K is padded
// to 32 with zeros (only plain floats need it), columns to 32 with zero scales. Super-block encodings put {f16 d[32];
// f16 dmin[32]} before every eighth block. Nothing is rounded: the packed weight decodes to the values of DecodeRow.
//
// Header, by ScaleKind:
//   kNone                plain floats, no header
//   kScale               f16 d[32]                                w = d * q
//   kScaleMin            f16 d[32], f16 m[32]                     w = d * q + m
//   kSuper               u8 sc[32], u8 mn[32]                     w = (d * sc) * q - dmin * mn
//   kSuper16             i8 sc[2][32], one for 16 k               w = (d * sc) * q             (no dmin)
// Planes of 16 columns, a line being 64 bytes, a "pair" t of a block k = 2t and 2t+1:
//   low nibbles (4, 5, 6 bits)  4 lines of 8 k: dword lane = column; its low 16 bits hold the even k, its high 16 bits
//                               the odd k, nibble s of each half being pair 4 * line + s
//   fifth bits (5 bits)         1 line: bit t of each half is pair t
//   upper two bits (6 bits)     2 lines of 8 pairs: bits 2s, 2s+1 of each half are pair 8 * line + s
//   bytes (8 bits)              16 pairs of {column: i8 k even, i8 k odd}
// Plain floats have no groups: f16 and f32 are [32 k][32 columns], bf16 is [16 pairs][32 columns]{k even, k odd}.
//
// Included by files compiled for one instruction set: everything here has internal linkage. Pure values, thread-safe.
#pragma once

#include <cstdint>

#include "base/encoding.h"

namespace deepinfer::cpu {

enum class ScaleKind : uint8_t { kNone, kScale, kScaleMin, kSuper, kSuper16 };

static constexpr int kPanelColumns = 32;
static constexpr int kBlockK = 32;
static constexpr int kGroupColumns = 16;
static constexpr int kSuperBlocks = 8;  // blocks in a super-block

struct PanelLayout {
  int bits;    // of a stored value: 4, 5, 6, 8 integers; 16, 32 floats
  int offset;  // subtracted from the stored unsigned integer; 0 where it is signed or has a minimum
  ScaleKind scale;
  int header_bytes;
  int group_bytes;  // planes of 16 columns
  int super_bytes;  // before every eighth block

  constexpr int block_bytes() const { return header_bytes + 2 * group_bytes; }
  constexpr bool has_min() const { return scale == ScaleKind::kScaleMin || scale == ScaleKind::kSuper; }
};

[[maybe_unused]] static constexpr PanelLayout LayoutOf(Encoding encoding) {
  switch (encoding) {
    case Encoding::kQ4_0:
      return {4, 8, ScaleKind::kScale, 64, 256, 0};
    case Encoding::kQ4_1:
      return {4, 0, ScaleKind::kScaleMin, 128, 256, 0};
    case Encoding::kQ5_0:
      return {5, 16, ScaleKind::kScale, 64, 320, 0};
    case Encoding::kQ5_1:
      return {5, 0, ScaleKind::kScaleMin, 128, 320, 0};
    case Encoding::kQ8_0:
      return {8, 0, ScaleKind::kScale, 64, 512, 0};
    case Encoding::kQ4_K:
      return {4, 0, ScaleKind::kSuper, 64, 256, 128};
    case Encoding::kQ5_K:
      return {5, 0, ScaleKind::kSuper, 64, 320, 128};
    case Encoding::kQ6_K:
      return {6, 32, ScaleKind::kSuper16, 64, 384, 64};
    case Encoding::kBF16:
    case Encoding::kF16:
      return {16, 0, ScaleKind::kNone, 0, 1024, 0};
    case Encoding::kF32:
      break;
  }
  return {32, 0, ScaleKind::kNone, 0, 2048, 0};
}

[[maybe_unused]] static constexpr int64_t BlocksOf(int64_t k) {
  return (k + kBlockK - 1) / kBlockK;
}

// Where block `block` of a panel starts.
[[maybe_unused]] static constexpr int64_t BlockOffset(const PanelLayout& layout, int64_t block) {
  return block * layout.block_bytes() + (block / kSuperBlocks + 1) * layout.super_bytes;
}

// Where the super-block header that holds for `block` starts.
[[maybe_unused]] static constexpr int64_t SuperOffset(const PanelLayout& layout, int64_t block) {
  return (block / kSuperBlocks) * (kSuperBlocks * int64_t{layout.block_bytes()} + layout.super_bytes);
}

// k of a super-block encoding is a multiple of 256.
[[maybe_unused]] static constexpr int64_t PanelBytes(const PanelLayout& layout, int64_t k) {
  return BlocksOf(k) * layout.block_bytes() + BlocksOf(k) / kSuperBlocks * layout.super_bytes;
}

}  // namespace deepinfer::cpu
