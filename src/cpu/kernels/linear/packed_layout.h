// The byte layout of a packed weight: panels of 32 output columns, each a run of blocks of 32 k.
//
// A packed weight is flat and free of pointers: panel p starts at p * PanelBytes. Within a panel, blocks follow each
// other along K. A block is {header; planes of columns 0-15; planes of columns 16-31}; lanes are columns. K is padded
// to 32 with zeros (only plain floats need it), columns to 32 with zero scales. A super-block header stands before
// every `super_blocks` blocks, the last of which may be missing. Nothing is rounded: the packed weight decodes to the
// values of DecodeRow (but a NaN of fp8, which becomes the NaN scale of its group: the sum over k is the same).
//
// Block header and super-block header, by ScaleKind; v is the value of the stored code:
//   kNone                plain floats, no header
//   kScale               f16 d[32]                      -                            w = d * v
//   kScaleMin            f16 d[32], f16 m[32]           -                            w = d * v + m
//   kSuper               u8 sc[32], u8 mn[32]           f16 d[32], f16 dmin[32]      w = (d * sc) * v - dmin * mn
//   kSuper16             i8 sc[2][32], one for 16 k     f16 d[32]                    w = (d * sc) * v
//   kSuperMin16          u8 {sc, mn: nibbles}[2][32]    f16 d[32], f16 dmin[32]      w = (d * sc) * v - dmin * mn
//   kSuperScale          -                              f16 d[32], i8 sc[8][32]      w = (d * sc) * v
//   kExponent            -                              u8 e[8][32]                  w = 2^(e - 128) * v, 0 for e < 2
//   kGroup               -                              f32 d[32]                    w = d * v
//   kGroupZero           -                              f16 d[32], f16 z[32]         w = d * v - d * z
// Planes of 16 columns, a line being 64 bytes, a "pair" t of a block k = 2t and 2t+1:
//   low nibbles (4, 5, 6 bits)  4 lines of 8 k: dword lane = column; its low 16 bits hold the even k, its high 16 bits
//                               the odd k, nibble s of each half being pair 4 * line + s
//   low two bits (2, 3 bits)    2 lines of 8 pairs: bits 2s, 2s+1 of each half are pair 8 * line + s
//   upper bit (3, 5 bits)       1 line: bit t of each half is pair t
//   upper two bits (6 bits)     2 lines, as the low two bits
//   bytes (8 bits)              16 pairs of {column: k even, k odd}
// Plain floats have no groups: f16 and f32 are [32 k][32 columns], bf16 is [16 pairs][32 columns]{k even, k odd}.
//
// Four-bit codes of iq4_nl, iq4_xs and mxfp4 stay four bits: the table look-up that turns a nibble into bf16 or f32
// takes any sixteen values, so a codebook costs what integers cost.
//
// Included by files compiled for one instruction set: everything here has internal linkage. Pure values, thread-safe.
#pragma once

#include <cstdint>

#include "base/codebooks.h"
#include "base/encoding.h"

namespace deepinfer::cpu {

enum class ScaleKind : uint8_t {
  kNone,
  kScale,
  kScaleMin,
  kSuper,
  kSuper16,
  kSuperMin16,
  kSuperScale,
  kExponent,
  kGroup,
  kGroupZero
};

// What a stored code stands for: itself less the offset, an entry of a table (base/codebooks.h), or an 8-bit float.
enum class Codes : uint8_t { kInteger, kIq4, kE2m1, kE4m3 };

static constexpr int kPanelColumns = 32;
static constexpr int kBlockK = 32;
static constexpr int kGroupColumns = 16;

struct PanelLayout {
  int bits;    // of a stored code: 2, 3, 4, 5, 6, 8; 16, 32: plain floats
  int offset;  // subtracted from the stored unsigned integer; 0 where it is signed or has a minimum
  ScaleKind scale;
  int header_bytes;
  int group_bytes;       // planes of 16 columns
  int super_bytes;       // before every super_blocks blocks
  int super_blocks = 8;  // blocks in a super-block
  Codes codes = Codes::kInteger;

  constexpr int block_bytes() const { return header_bytes + 2 * group_bytes; }
  // Of a block with its share of the super-block's header: what must be fetched ahead for each.
  constexpr int stride() const { return block_bytes() + super_bytes / super_blocks; }
  constexpr bool has_min() const {
    return scale == ScaleKind::kScaleMin || scale == ScaleKind::kSuper || scale == ScaleKind::kSuperMin16 ||
           scale == ScaleKind::kGroupZero;
  }
  // Scales (and minima) of a column in a block: 2 where they hold for 16 k.
  constexpr int scales_per_block() const {
    return scale == ScaleKind::kSuper16 || scale == ScaleKind::kSuperMin16 ? 2 : 1;
  }
  // Codes of less than 8 bits lie in a plane of low bits and one of the bits above.
  constexpr int low_bits() const { return bits < 4 ? 2 : 4; }
  constexpr int upper_bits() const { return bits - low_bits(); }
  constexpr int low_bytes() const { return low_bits() * kGroupColumns * kBlockK / 8; }
  constexpr int ValueOf(int code) const {  // of less than 8 bits
    return codes == Codes::kIq4 ? kIq4Values[code] : codes == Codes::kE2m1 ? kE2m1Doubled[code] : code - offset;
  }
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
    case Encoding::kQ2_K:
      return {2, 0, ScaleKind::kSuperMin16, 64, 128, 128};
    case Encoding::kQ3_K:
      return {3, 4, ScaleKind::kSuper16, 64, 192, 64};
    case Encoding::kQ4_K:
      return {4, 0, ScaleKind::kSuper, 64, 256, 128};
    case Encoding::kQ5_K:
      return {5, 0, ScaleKind::kSuper, 64, 320, 128};
    case Encoding::kQ6_K:
      return {6, 32, ScaleKind::kSuper16, 64, 384, 64};
    case Encoding::kIQ4_NL:
      return {4, 0, ScaleKind::kScale, 64, 256, 0, 8, Codes::kIq4};
    case Encoding::kIQ4_XS:
      return {4, 0, ScaleKind::kSuperScale, 0, 256, 320, 8, Codes::kIq4};
    case Encoding::kMXFP4:
      return {4, 0, ScaleKind::kExponent, 0, 256, 256, 8, Codes::kE2m1};
    case Encoding::kFP8:
      return {8, 0, ScaleKind::kGroup, 0, 512, 128, 4, Codes::kE4m3};
    case Encoding::kInt8:
      return {8, 0, ScaleKind::kGroup, 0, 512, 128, 4};
    case Encoding::kInt4:
      return {4, 0, ScaleKind::kGroupZero, 0, 256, 128, 4};
    case Encoding::kInt4G32:
      return {4, 0, ScaleKind::kGroupZero, 0, 256, 128, 1};
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
  return block * layout.block_bytes() + (block / layout.super_blocks + 1) * layout.super_bytes;
}

// Where the super-block header that holds for `block` starts.
[[maybe_unused]] static constexpr int64_t SuperOffset(const PanelLayout& layout, int64_t block) {
  return (block / layout.super_blocks) * (layout.super_blocks * int64_t{layout.block_bytes()} + layout.super_bytes);
}

[[maybe_unused]] static constexpr int64_t PanelBytes(const PanelLayout& layout, int64_t k) {
  const int64_t supers = (BlocksOf(k) + layout.super_blocks - 1) / layout.super_blocks;
  return BlocksOf(k) * layout.block_bytes() + supers * layout.super_bytes;
}

}  // namespace deepinfer::cpu
