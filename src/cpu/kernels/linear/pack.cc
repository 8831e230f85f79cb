#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "cpu/kernels/linear/linear.h"
#include "cpu/kernels/linear/packed_layout.h"
#include "cpu/kernels/linear/source_block.h"

namespace deepinfer::cpu {
namespace {

template <class T>
T Load(const uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}
template <class T>
void Store(uint8_t* p, T value) {
  std::memcpy(p, &value, sizeof(T));
}

// Writes bits [shift, shift + bits) of the codes of a column into a plane; lane = column within the group.
void WritePlane(int bits, int shift, const uint8_t* q, uint8_t* plane, int lane) {
  const int pairs = 16 / bits, mask = (1 << bits) - 1;
  for (int line = 0; line < bits; ++line) {
    uint32_t word = 0;
    for (int s = 0; s < pairs; ++s) {
      const uint8_t* pair = q + 2 * (pairs * line + s);
      word |= static_cast<uint32_t>((pair[0] >> shift) & mask) << (bits * s);
      word |= static_cast<uint32_t>((pair[1] >> shift) & mask) << (16 + bits * s);
    }
    Store(plane + line * 64 + lane * 4, word);
  }
}

void WritePlanes(const PanelLayout& layout, const uint8_t* q, uint8_t* group, int lane) {
  if (layout.bits == 8) {
    for (int t = 0; t < 16; ++t) std::memcpy(group + t * 32 + lane * 2, q + 2 * t, 2);
    return;
  }
  WritePlane(layout.low_bits(), 0, q, group, lane);
  if (layout.upper_bits() == 0) return;
  WritePlane(layout.upper_bits(), layout.low_bits(), q, group + layout.low_bytes(), lane);
}

int ReadPlane(int bits, const uint8_t* plane, int lane, int k) {
  const int pairs = 16 / bits, pair = k / 2;
  const auto word = Load<uint32_t>(plane + pair / pairs * 64 + lane * 4);
  return static_cast<int>(word >> (16 * (k % 2) + bits * (pair % pairs))) & ((1 << bits) - 1);
}

// The values of a column's codes, without scale and minimum.
void ReadPlanes(const PanelLayout& layout, const uint8_t* group, int lane, float* values) {
  for (int k = 0; k < kBlockK; ++k) {
    if (layout.bits == 8) {
      const uint8_t code = group[k / 2 * 32 + lane * 2 + k % 2];
      values[k] = layout.codes == Codes::kE4m3 ? F8E4M3ToF32(code) : static_cast<int8_t>(code);
      continue;
    }
    int code = ReadPlane(layout.low_bits(), group, lane, k);
    if (layout.upper_bits() > 0) {
      code |= ReadPlane(layout.upper_bits(), group + layout.low_bytes(), lane, k) << layout.low_bits();
    }
    values[k] = static_cast<float>(layout.ValueOf(code));
  }
}

// `within`: the block's place in its super-block.
void WriteHeader(const PanelLayout& layout, const ColumnBlock& block, int within, uint8_t* header, uint8_t* super,
                 int column) {
  switch (layout.scale) {
    case ScaleKind::kNone:
      return;
    case ScaleKind::kScaleMin:
      Store(header + 64 + 2 * column, block.m);
      [[fallthrough]];
    case ScaleKind::kScale:
      Store(header + 2 * column, block.d);
      return;
    case ScaleKind::kSuper:
      header[column] = block.sc[0];
      header[32 + column] = block.mn[0];
      Store(super + 2 * column, block.d);
      Store(super + 64 + 2 * column, block.m);
      return;
    case ScaleKind::kSuper16:
      header[column] = block.sc[0];
      header[32 + column] = block.sc[1];
      Store(super + 2 * column, block.d);
      return;
    case ScaleKind::kSuperMin16:
      for (int half = 0; half < 2; ++half) {
        header[half * 32 + column] = static_cast<uint8_t>(block.sc[half] | block.mn[half] << 4);
      }
      Store(super + 2 * column, block.d);
      Store(super + 64 + 2 * column, block.m);
      return;
    case ScaleKind::kSuperScale:
      Store(super + 2 * column, block.d);
      super[64 + within * 32 + column] = block.sc[0];
      return;
    case ScaleKind::kExponent:
      super[within * 32 + column] = block.sc[0];
      return;
    case ScaleKind::kGroup:  // once NaN, always NaN
      if (within == 0 || std::isnan(block.scale)) Store(super + 4 * column, block.scale);
      return;
    case ScaleKind::kGroupZero:
      Store(super + 2 * column, block.d);
      Store(super + 64 + 2 * column, block.m);
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
    ReadSourceBlock(encoding, row, block, &values);
    const int within = static_cast<int>(block % layout.super_blocks);
    WriteHeader(layout, values, within, dst, panel + SuperOffset(layout, block), column);
    WritePlanes(layout, values.q, dst + layout.header_bytes + column / kGroupColumns * layout.group_bytes,
                column % kGroupColumns);
  }
}

void DecodePlainColumn(Encoding encoding, const uint8_t* panel, int column, int64_t k, float* out) {
  if (encoding == Encoding::kF32) {
    for (int64_t i = 0; i < k; ++i) std::memcpy(out + i, panel + (i * kPanelColumns + column) * 4, 4);
  } else if (encoding == Encoding::kF16) {
    for (int64_t i = 0; i < k; ++i) out[i] = F16ToF32(Load<uint16_t>(panel + (i * kPanelColumns + column) * 2));
  } else {
    for (int64_t i = 0; i < k; ++i) out[i] = BF16ToF32(Load<uint16_t>(panel + PlainBf16Offset(i, column)));
  }
}

float HalfAt(const uint8_t* p) {
  return F16ToF32(Load<uint16_t>(p));
}

struct ColumnScales {
  float scale[2] = {};  // of the two halves of a block
  float minimum[2] = {};
};

ColumnScales ReadHeader(const PanelLayout& layout, const uint8_t* header, const uint8_t* super, int within,
                        int column) {
  ColumnScales s;
  const auto both = [](float* pair, float value) { pair[0] = pair[1] = value; };
  switch (layout.scale) {
    case ScaleKind::kNone:
      break;
    case ScaleKind::kScaleMin:
      both(s.minimum, HalfAt(header + 64 + 2 * column));
      [[fallthrough]];
    case ScaleKind::kScale:
      both(s.scale, HalfAt(header + 2 * column));
      break;
    case ScaleKind::kSuper:
      both(s.scale, HalfAt(super + 2 * column) * static_cast<float>(header[column]));
      both(s.minimum, -(HalfAt(super + 64 + 2 * column) * static_cast<float>(header[32 + column])));
      break;
    case ScaleKind::kSuper16:
      for (int half = 0; half < 2; ++half) {
        const auto factor = static_cast<int8_t>(header[half * 32 + column]);
        s.scale[half] = HalfAt(super + 2 * column) * static_cast<float>(factor);
      }
      break;
    case ScaleKind::kSuperMin16:
      for (int half = 0; half < 2; ++half) {
        const uint8_t pair = header[half * 32 + column];
        s.scale[half] = HalfAt(super + 2 * column) * static_cast<float>(pair & 15);
        s.minimum[half] = -(HalfAt(super + 64 + 2 * column) * static_cast<float>(pair >> 4));
      }
      break;
    case ScaleKind::kSuperScale:
      both(s.scale,
           HalfAt(super + 2 * column) * static_cast<float>(static_cast<int8_t>(super[64 + within * 32 + column])));
      break;
    case ScaleKind::kExponent: {
      const uint8_t exponent = super[within * 32 + column];
      both(s.scale, exponent == 0 ? 0.0f : std::bit_cast<float>((exponent - 1u) << 23));
      break;
    }
    case ScaleKind::kGroup:
      both(s.scale, Load<float>(super + 4 * column));
      break;
    case ScaleKind::kGroupZero:
      both(s.scale, HalfAt(super + 2 * column));
      both(s.minimum, -(s.scale[0] * HalfAt(super + 64 + 2 * column)));
      break;
  }
  return s;
}

void DecodeBlockColumn(const PanelLayout& layout, const uint8_t* panel, int64_t block, int column, float* out) {
  const uint8_t* start = panel + BlockOffset(layout, block);
  const ColumnScales s = ReadHeader(layout, start, panel + SuperOffset(layout, block),
                                    static_cast<int>(block % layout.super_blocks), column);
  ReadPlanes(layout, start + layout.header_bytes + column / kGroupColumns * layout.group_bytes, column % kGroupColumns,
             out);
  for (int k = 0; k < kBlockK; ++k) {
    const float product = s.scale[k / 16] * out[k];
    out[k] = layout.has_min() ? product + s.minimum[k / 16] : product;
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
    DecodeBlockColumn(layout, panel, block, column, out + block * kBlockK);
  }
}

}  // namespace deepinfer::cpu
