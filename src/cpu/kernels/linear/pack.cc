#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "cpu/kernels/linear/linear.h"
#include "cpu/kernels/linear/packed_layout.h"

namespace deepinfer::cpu {
namespace {

// 32 k of one column, integers as stored (without offset) and the bits of its scales.
struct ColumnBlock {
  uint8_t q[kBlockK];
  uint16_t d = 0;
  uint16_t m = 0;      // minimum, or dmin of a super-block
  uint8_t sc[2] = {};  // scale of the sub-block, or of its two halves
  uint8_t mn = 0;
};

uint16_t Load16(const uint8_t* p) {
  uint16_t value;
  std::memcpy(&value, p, 2);
  return value;
}
uint32_t Load32(const uint8_t* p) {
  uint32_t value;
  std::memcpy(&value, p, 4);
  return value;
}
void Store16(uint8_t* p, uint16_t value) {
  std::memcpy(p, &value, 2);
}
void Store32(uint8_t* p, uint32_t value) {
  std::memcpy(p, &value, 4);
}

void SplitNibbles(const uint8_t* bytes, uint8_t* q) {
  for (int j = 0; j < 16; ++j) {
    q[j] = bytes[j] & 15;
    q[16 + j] = bytes[j] >> 4;
  }
}

void AddFifthBits(uint32_t bits, uint8_t* q) {
  for (int j = 0; j < 32; ++j) q[j] |= ((bits >> j) & 1) << 4;
}

// The 6-bit pair `j` of the 12 scale bytes of q4_k and q5_k.
void SplitSuperScale(const uint8_t* s, int j, ColumnBlock* out) {
  if (j < 4) {
    out->sc[0] = s[j] & 63;
    out->mn = s[j + 4] & 63;
  } else {
    out->sc[0] = (s[j + 4] & 15) | ((s[j - 4] >> 6) << 4);
    out->mn = (s[j + 4] >> 4) | ((s[j] >> 6) << 4);
  }
}

void ReadSuper(Encoding encoding, const uint8_t* src, int j, ColumnBlock* out) {
  if (encoding == Encoding::kQ6_K) {  // {low nibbles[128]; upper bits[64]; i8 scales[16]; f16 d}
    const int half = j / 4, run = j % 4;
    const uint8_t* low = src + half * 64 + (run % 2) * 32;
    const uint8_t* high = src + 128 + half * 32;
    for (int i = 0; i < 32; ++i) {
      out->q[i] = ((low[i] >> (run / 2 * 4)) & 15) | (((high[i] >> (2 * run)) & 3) << 4);
    }
    out->sc[0] = src[192 + 2 * j];
    out->sc[1] = src[192 + 2 * j + 1];
    out->d = Load16(src + 208);
    return;
  }
  // {f16 d; f16 dmin; scales[12]; q5_k: fifth bits[32]; nibbles[128]}
  out->d = Load16(src);
  out->m = Load16(src + 2);
  SplitSuperScale(src + 4, j, out);
  const uint8_t* nibbles = src + (encoding == Encoding::kQ5_K ? 48 : 16) + (j / 2) * 32;
  for (int i = 0; i < 32; ++i) out->q[i] = (nibbles[i] >> (j % 2 * 4)) & 15;
  if (encoding == Encoding::kQ5_K) {
    for (int i = 0; i < 32; ++i) out->q[i] |= ((src[16 + i] >> j) & 1) << 4;
  }
}

// Block `block` of 32 k of a source row.
void ReadBlock(Encoding encoding, const uint8_t* row, int64_t block, ColumnBlock* out) {
  const EncodingInfo& info = InfoOf(encoding);
  const int per_source = info.block_elements / kBlockK;
  const uint8_t* src = row + block / per_source * info.block_bytes;
  switch (encoding) {
    case Encoding::kQ4_0:
      out->d = Load16(src);
      return SplitNibbles(src + 2, out->q);
    case Encoding::kQ4_1:
      out->d = Load16(src);
      out->m = Load16(src + 2);
      return SplitNibbles(src + 4, out->q);
    case Encoding::kQ5_0:
      out->d = Load16(src);
      SplitNibbles(src + 6, out->q);
      return AddFifthBits(Load32(src + 2), out->q);
    case Encoding::kQ5_1:
      out->d = Load16(src);
      out->m = Load16(src + 2);
      SplitNibbles(src + 8, out->q);
      return AddFifthBits(Load32(src + 4), out->q);
    case Encoding::kQ8_0:
      out->d = Load16(src);
      std::memcpy(out->q, src + 2, kBlockK);
      return;
    default:
      return ReadSuper(encoding, src, static_cast<int>(block % per_source), out);
  }
}

// Writes the integers of a column into the planes of its group; lane = column within the group.
void WritePlanes(const PanelLayout& layout, const uint8_t* q, uint8_t* group, int lane) {
  if (layout.bits == 8) {
    for (int t = 0; t < 16; ++t) std::memcpy(group + t * 32 + lane * 2, q + 2 * t, 2);
    return;
  }
  for (int line = 0; line < 4; ++line) {
    uint32_t word = 0;
    for (int s = 0; s < 4; ++s) {
      const uint8_t* pair = q + 8 * line + 2 * s;
      word |= (uint32_t{pair[0]} & 15) << (4 * s) | (uint32_t{pair[1]} & 15) << (16 + 4 * s);
    }
    Store32(group + line * 64 + lane * 4, word);
  }
  const int upper_bits = layout.bits - 4;
  for (int line = 0; line < upper_bits; ++line) {
    const int pairs = 16 / upper_bits;
    uint32_t word = 0;
    for (int s = 0; s < pairs; ++s) {
      const uint8_t* pair = q + 2 * (pairs * line + s);
      word |= uint32_t{pair[0]} >> 4 << (upper_bits * s) | uint32_t{pair[1]} >> 4 << (16 + upper_bits * s);
    }
    Store32(group + 256 + line * 64 + lane * 4, word);
  }
}

void ReadPlanes(const PanelLayout& layout, const uint8_t* group, int lane, uint8_t* q) {
  if (layout.bits == 8) {
    for (int t = 0; t < 16; ++t) std::memcpy(q + 2 * t, group + t * 32 + lane * 2, 2);
    return;
  }
  const int upper_bits = layout.bits - 4;
  for (int k = 0; k < kBlockK; ++k) {
    const int pair = k / 2, half = 16 * (k % 2);
    q[k] = (Load32(group + pair / 4 * 64 + lane * 4) >> (half + 4 * (pair % 4))) & 15;
    if (upper_bits == 0) continue;
    const int pairs = 16 / upper_bits;
    const uint32_t word = Load32(group + 256 + pair / pairs * 64 + lane * 4);
    q[k] |= ((word >> (half + upper_bits * (pair % pairs))) & ((1 << upper_bits) - 1)) << 4;
  }
}

void WriteHeader(const PanelLayout& layout, const ColumnBlock& block, uint8_t* header, uint8_t* super, int column) {
  switch (layout.scale) {
    case ScaleKind::kNone:
      return;
    case ScaleKind::kScaleMin:
      Store16(header + 64 + 2 * column, block.m);
      [[fallthrough]];
    case ScaleKind::kScale:
      Store16(header + 2 * column, block.d);
      return;
    case ScaleKind::kSuper:
      header[column] = block.sc[0];
      header[32 + column] = block.mn;
      Store16(super + 2 * column, block.d);
      Store16(super + 64 + 2 * column, block.m);
      return;
    case ScaleKind::kSuper16:
      header[column] = block.sc[0];
      header[32 + column] = block.sc[1];
      Store16(super + 2 * column, block.d);
      return;
  }
}

int64_t PlainBf16Offset(int64_t k, int column) {
  return (k / 2 * kPanelColumns + column) * 4 + k % 2 * 2;
}

void PackPlainColumn(Encoding encoding, const uint8_t* row, int64_t k, uint8_t* panel, int column) {
  if (encoding == Encoding::kF32) {
    for (int64_t i = 0; i < k; ++i) std::memcpy(panel + (i * kPanelColumns + column) * 4, row + i * 4, 4);
  } else if (encoding == Encoding::kF16) {
    for (int64_t i = 0; i < k; ++i) std::memcpy(panel + (i * kPanelColumns + column) * 2, row + i * 2, 2);
  } else {
    for (int64_t i = 0; i < k; ++i) std::memcpy(panel + PlainBf16Offset(i, column), row + i * 2, 2);
  }
}

void PackColumn(Encoding encoding, const uint8_t* row, int64_t k, uint8_t* panel, int column) {
  const PanelLayout layout = LayoutOf(encoding);
  if (layout.scale == ScaleKind::kNone) return PackPlainColumn(encoding, row, k, panel, column);
  ColumnBlock values;
  for (int64_t block = 0; block < BlocksOf(k); ++block) {
    uint8_t* dst = panel + BlockOffset(layout, block);
    ReadBlock(encoding, row, block, &values);
    WriteHeader(layout, values, dst, panel + SuperOffset(layout, block), column);
    WritePlanes(layout, values.q, dst + layout.header_bytes + column / kGroupColumns * layout.group_bytes,
                column % kGroupColumns);
  }
}

void DecodePlainColumn(Encoding encoding, const uint8_t* panel, int column, int64_t k, float* out) {
  if (encoding == Encoding::kF32) {
    for (int64_t i = 0; i < k; ++i) std::memcpy(out + i, panel + (i * kPanelColumns + column) * 4, 4);
  } else if (encoding == Encoding::kF16) {
    for (int64_t i = 0; i < k; ++i) out[i] = F16ToF32(Load16(panel + (i * kPanelColumns + column) * 2));
  } else {
    for (int64_t i = 0; i < k; ++i) out[i] = BF16ToF32(Load16(panel + PlainBf16Offset(i, column)));
  }
}

void DecodeBlockColumn(const PanelLayout& layout, const uint8_t* block, const uint8_t* super, int column, float* out) {
  uint8_t q[kBlockK];
  ReadPlanes(layout, block + layout.header_bytes + column / kGroupColumns * layout.group_bytes, column % kGroupColumns,
             q);
  float scale[2], minimum = 0.0f;
  switch (layout.scale) {
    case ScaleKind::kScaleMin:
    case ScaleKind::kScale:
    case ScaleKind::kNone:
      scale[0] = scale[1] = F16ToF32(Load16(block + 2 * column));
      if (layout.has_min()) minimum = F16ToF32(Load16(block + 64 + 2 * column));
      break;
    case ScaleKind::kSuper:
      scale[0] = scale[1] = F16ToF32(Load16(super + 2 * column)) * static_cast<float>(block[column]);
      minimum = -(F16ToF32(Load16(super + 64 + 2 * column)) * static_cast<float>(block[32 + column]));
      break;
    case ScaleKind::kSuper16:
      for (int half = 0; half < 2; ++half) {
        const auto factor = static_cast<int8_t>(block[half * 32 + column]);
        scale[half] = F16ToF32(Load16(super + 2 * column)) * static_cast<float>(factor);
      }
      break;
  }
  for (int k = 0; k < kBlockK; ++k) {
    const int value = layout.bits == 8 ? static_cast<int8_t>(q[k]) : q[k] - layout.offset;
    const float product = scale[k / 16] * static_cast<float>(value);
    out[k] = layout.has_min() ? product + minimum : product;
  }
}

}  // namespace

size_t PackedLinearBytes(Encoding encoding, int64_t n, int64_t k) {
  DI_CHECK(n >= 0 && k >= 0 && k % InfoOf(encoding).block_elements == 0);
  return static_cast<size_t>(NumPanels(n)) * static_cast<size_t>(PanelBytes(LayoutOf(encoding), k));
}

void PackPanels(Encoding encoding, std::span<const PackSegment> segments, int64_t k, void* dst, int64_t panel_begin,
                int64_t panel_end) {
  DI_CHECK(k % InfoOf(encoding).block_elements == 0);
  const int64_t panel_bytes = PanelBytes(LayoutOf(encoding), k);
  int64_t n = 0;
  for (const PackSegment& segment : segments) n += segment.num_rows;
  for (int64_t panel = panel_begin; panel < panel_end; ++panel) {
    uint8_t* out = static_cast<uint8_t*>(dst) + panel * panel_bytes;
    // Full panels of whole blocks are written completely; only padding needs the zeros.
    if ((panel + 1) * kPanelColumns > n || k % kBlockK != 0) std::memset(out, 0, static_cast<size_t>(panel_bytes));
    int64_t first = 0;  // packed column of the segment's first row
    for (const PackSegment& segment : segments) {
      const int64_t begin = std::max(first, panel * kPanelColumns);
      const int64_t end = std::min(first + segment.num_rows, (panel + 1) * kPanelColumns);
      for (int64_t column = begin; column < end; ++column) {
        const uint8_t* row = static_cast<const uint8_t*>(segment.rows) + (column - first) * segment.row_stride;
        PackColumn(encoding, row, k, out, static_cast<int>(column - panel * kPanelColumns));
      }
      first += segment.num_rows;
    }
  }
}

void DecodePackedRow(Encoding encoding, const void* packed, int64_t n, int64_t k, int64_t row, float* out) {
  DI_CHECK(row >= 0 && row < n);
  const PanelLayout layout = LayoutOf(encoding);
  const uint8_t* panel = static_cast<const uint8_t*>(packed) + row / kPanelColumns * PanelBytes(layout, k);
  const int column = static_cast<int>(row % kPanelColumns);
  if (layout.scale == ScaleKind::kNone) return DecodePlainColumn(encoding, panel, column, k, out);
  for (int64_t block = 0; block < BlocksOf(k); ++block) {
    DecodeBlockColumn(layout, panel + BlockOffset(layout, block), panel + SuperOffset(layout, block), column,
                      out + block * kBlockK);
  }
}

}  // namespace deepinfer::cpu
