#include "cpu/kernels/linear/source_block.h"

#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/half.h"

// The layouts of the blocks are described in base/decode_blocks.cc.
namespace deepinfer::cpu {
namespace {

template <class T>
T Load(const uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
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

// Run j of the two-bit values of q2_k and q3_k.
void SplitTwoBits(const uint8_t* bytes, int j, uint8_t* q) {
  for (int i = 0; i < 32; ++i) q[i] = (bytes[j / 4 * 32 + i] >> (j % 4 * 2)) & 3;
}

void ReadQ2_K(const uint8_t* src, int j, ColumnBlock* out) {
  for (int half = 0; half < 2; ++half) {
    out->sc[half] = src[2 * j + half] & 15;
    out->mn[half] = src[2 * j + half] >> 4;
  }
  SplitTwoBits(src + 16, j, out->q);
  out->d = Load<uint16_t>(src + 80);
  out->m = Load<uint16_t>(src + 82);
}

void ReadQ3_K(const uint8_t* src, int j, ColumnBlock* out) {
  const uint8_t* packed = src + 96;
  for (int half = 0; half < 2; ++half) {
    const int group = 2 * j + half;
    const int low = (packed[group % 8] >> (group / 8 * 4)) & 15;
    const int high = (packed[8 + group % 4] >> (group / 4 * 2)) & 3;
    out->sc[half] = static_cast<uint8_t>((low | high << 4) - 32);
  }
  SplitTwoBits(src + 32, j, out->q);
  for (int i = 0; i < 32; ++i) out->q[i] |= ((src[i] >> j) & 1) << 2;
  out->d = Load<uint16_t>(src + 108);
}

// q4_k and q5_k: {f16 d; f16 dmin; scales[12]; q5_k: fifth bits[32]; nibbles[128]}
void ReadQ45_K(bool fifth_bits, const uint8_t* src, int j, ColumnBlock* out) {
  out->d = Load<uint16_t>(src);
  out->m = Load<uint16_t>(src + 2);
  const uint8_t* s = src + 4;
  if (j < 4) {
    out->sc[0] = s[j] & 63;
    out->mn[0] = s[j + 4] & 63;
  } else {
    out->sc[0] = (s[j + 4] & 15) | ((s[j - 4] >> 6) << 4);
    out->mn[0] = (s[j + 4] >> 4) | ((s[j] >> 6) << 4);
  }
  const uint8_t* nibbles = src + (fifth_bits ? 48 : 16) + (j / 2) * 32;
  for (int i = 0; i < 32; ++i) out->q[i] = (nibbles[i] >> (j % 2 * 4)) & 15;
  if (!fifth_bits) return;
  for (int i = 0; i < 32; ++i) out->q[i] |= ((src[16 + i] >> j) & 1) << 4;
}

void ReadQ6_K(const uint8_t* src, int j, ColumnBlock* out) {
  const int half = j / 4, run = j % 4;
  const uint8_t* low = src + half * 64 + (run % 2) * 32;
  const uint8_t* high = src + 128 + half * 32;
  for (int i = 0; i < 32; ++i) {
    out->q[i] = ((low[i] >> (run / 2 * 4)) & 15) | (((high[i] >> (2 * run)) & 3) << 4);
  }
  out->sc[0] = src[192 + 2 * j];
  out->sc[1] = src[192 + 2 * j + 1];
  out->d = Load<uint16_t>(src + 208);
}

void ReadIQ4_XS(const uint8_t* src, int j, ColumnBlock* out) {
  const int low = (src[4 + j / 2] >> (j % 2 * 4)) & 15;
  const int high = (Load<uint16_t>(src + 2) >> (2 * j)) & 3;
  out->sc[0] = static_cast<uint8_t>((low | high << 4) - 32);
  out->d = Load<uint16_t>(src);
  SplitNibbles(src + 8 + 16 * j, out->q);
}

void ReadScaledBytes(bool is_e4m3, const uint8_t* src, ColumnBlock* out) {
  out->scale = Load<float>(src);
  std::memcpy(out->q, src + 4, kBlockK);
  if (!is_e4m3) return;
  for (const uint8_t code : out->q) {
    if ((code & 0x7f) == 0x7f) out->scale = std::numeric_limits<float>::quiet_NaN();
  }
}

void ReadInt4(const uint8_t* src, ColumnBlock* out) {
  out->d = Load<uint16_t>(src);
  out->m = F32ToF16(src[2]);
  SplitNibbles(src + 3, out->q);
}

}  // namespace

void ReadSourceBlock(Encoding encoding, const uint8_t* row, int64_t block, ColumnBlock* out) {
  const EncodingInfo& info = InfoOf(encoding);
  const int per_source = info.block_elements / kBlockK;
  DI_CHECK(per_source > 0);
  const uint8_t* src = row + block / per_source * info.block_bytes;
  const int j = static_cast<int>(block % per_source);
  switch (encoding) {
    case Encoding::kQ4_0:
    case Encoding::kIQ4_NL:
      out->d = Load<uint16_t>(src);
      return SplitNibbles(src + 2, out->q);
    case Encoding::kQ4_1:
      out->d = Load<uint16_t>(src);
      out->m = Load<uint16_t>(src + 2);
      return SplitNibbles(src + 4, out->q);
    case Encoding::kQ5_0:
      out->d = Load<uint16_t>(src);
      SplitNibbles(src + 6, out->q);
      return AddFifthBits(Load<uint32_t>(src + 2), out->q);
    case Encoding::kQ5_1:
      out->d = Load<uint16_t>(src);
      out->m = Load<uint16_t>(src + 2);
      SplitNibbles(src + 8, out->q);
      return AddFifthBits(Load<uint32_t>(src + 4), out->q);
    case Encoding::kQ8_0:
      out->d = Load<uint16_t>(src);
      std::memcpy(out->q, src + 2, kBlockK);
      return;
    case Encoding::kQ2_K:
      return ReadQ2_K(src, j, out);
    case Encoding::kQ3_K:
      return ReadQ3_K(src, j, out);
    case Encoding::kQ4_K:
    case Encoding::kQ5_K:
      return ReadQ45_K(encoding == Encoding::kQ5_K, src, j, out);
    case Encoding::kQ6_K:
      return ReadQ6_K(src, j, out);
    case Encoding::kIQ4_XS:
      return ReadIQ4_XS(src, j, out);
    case Encoding::kMXFP4:
      out->sc[0] = src[0];
      return SplitNibbles(src + 1, out->q);
    case Encoding::kFP8:
    case Encoding::kInt8:
      return ReadScaledBytes(encoding == Encoding::kFP8, src, out);
    case Encoding::kInt4:
    case Encoding::kInt4G32:
      return ReadInt4(src, out);
    case Encoding::kF32:
    case Encoding::kF16:
    case Encoding::kBF16:
      break;
  }
  DI_CHECK(false);
}

}  // namespace deepinfer::cpu
