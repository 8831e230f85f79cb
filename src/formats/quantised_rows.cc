#include "formats/quantised_rows.h"

#include <cstring>

#include "base/half.h"

namespace deepinfer::formats {
namespace {

constexpr int kBlock = 32;

template <class T>
T LoadAt(std::span<const std::byte> data, int64_t index) {
  T value;
  std::memcpy(&value, data.data() + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// The nibble of column n % 8 in a word of eight columns.
int NibbleOfColumn(Int4Layout layout, int64_t n) {
  constexpr int kAwqPlace[8] = {0, 4, 1, 5, 2, 6, 3, 7};
  return layout == Int4Layout::kAwq ? kAwqPlace[n % 8] : static_cast<int>(n % 8);
}

// Codes of columns 32 * block and the 31 that follow, of row n.
void LoadCodes(const Int4Source& s, int64_t n, int64_t block, uint8_t* q) {
  if (s.order != nullptr) {
    for (int j = 0; j < kBlock; ++j) {
      const int64_t k = (*s.order)[static_cast<size_t>(kBlock * block + j)];
      q[j] = (LoadAt<uint32_t>(s.codes, k / 8 * s.n + n) >> (4 * (k % 8))) & 15;
    }
    return;
  }
  if (s.layout == Int4Layout::kAwq) {
    const int shift = 4 * NibbleOfColumn(s.layout, n);
    for (int j = 0; j < kBlock; ++j) {
      q[j] = (LoadAt<uint32_t>(s.codes, (kBlock * block + j) * (s.n / 8) + n / 8) >> shift) & 15;
    }
    return;
  }
  for (int part = 0; part < kBlock / 8; ++part) {
    const int64_t word_k = kBlock / 8 * block + part;
    const auto word =
        LoadAt<uint32_t>(s.codes, s.layout == Int4Layout::kGptq ? word_k * s.n + n : n * (s.k / 8) + word_k);
    for (int j = 0; j < 8; ++j) q[8 * part + j] = (word >> (4 * j)) & 15;
  }
}

float ScaleOf(const Int4Source& s, int64_t n, int64_t group) {
  return s.scales.At(s.layout == Int4Layout::kPacked ? n * (s.k / s.group_size) + group : group * s.n + n);
}

uint8_t ZeroOf(const Int4Source& s, int64_t n, int64_t group) {
  if (s.layout == Int4Layout::kPacked) return 8;
  const auto word = LoadAt<uint32_t>(s.zeros, group * (s.n / 8) + n / 8);
  return static_cast<uint8_t>(((word >> (4 * NibbleOfColumn(s.layout, n))) & 15) + s.zero_offset);
}

void WriteInt4Block(const Int4Source& s, int64_t n, int64_t block, std::byte* out) {
  const int64_t group = kBlock * block / s.group_size;
  const uint16_t scale = F32ToF16(ScaleOf(s, n, group));
  std::memcpy(out, &scale, sizeof(scale));
  out[2] = static_cast<std::byte>(ZeroOf(s, n, group));
  uint8_t q[kBlock];
  LoadCodes(s, n, block, q);
  for (int j = 0; j < kBlock / 2; ++j) out[3 + j] = static_cast<std::byte>(q[j] | q[kBlock / 2 + j] << 4);
}

void WriteScaledRow(const ScaledBytes& s, int64_t row, std::byte* out) {
  const std::byte* codes = s.codes.data() + row * s.k;
  const int64_t scale_row = row / s.rows_per_scale * s.scale_columns;
  for (int64_t k = 0; k < s.k; k += kBlock, out += sizeof(float) + kBlock) {
    const float scale = s.scales.At(scale_row + k / s.columns_per_scale);
    std::memcpy(out, &scale, sizeof(scale));
    std::memcpy(out + sizeof(scale), codes + k, kBlock);
  }
}

}  // namespace

float Floats::At(int64_t index) const {
  float value;
  DecodeRow(encoding, data.data() + RowBytes(encoding, index), &value, 1);
  return value;
}

RowReader ScaledByteRows(const ScaledBytes& source) {
  return [source](int64_t begin, int64_t end, std::byte* out) {
    const size_t bytes = RowBytes(source.encoding, source.k);
    for (int64_t row = begin; row < end; ++row, out += bytes) WriteScaledRow(source, row, out);
  };
}

RowReader Int4Rows(const Int4Source& source) {
  return [source](int64_t begin, int64_t end, std::byte* out) {
    const auto block_bytes = static_cast<size_t>(InfoOf(Encoding::kInt4).block_bytes);
    const int64_t blocks = source.k / kBlock;
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t block = 0; block < blocks; ++block, out += block_bytes) WriteInt4Block(source, row, block, out);
    }
  };
}

}  // namespace deepinfer::formats
