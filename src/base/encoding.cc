#include "base/encoding.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/half.h"

namespace deepinfer {
namespace {

constexpr EncodingInfo kInfo[kNumEncodings] = {
#define DI_ENCODING(enumerator, name, elements, bytes) {name, elements, bytes},
#include "base/encodings.inc"
#undef DI_ENCODING
};

uint16_t Load16(const uint8_t* src) {
  uint16_t bits;
  std::memcpy(&bits, src, sizeof(bits));
  return bits;
}
uint32_t Load32(const uint8_t* src) {
  uint32_t bits;
  std::memcpy(&bits, src, sizeof(bits));
  return bits;
}
void Store16(uint8_t* dst, uint16_t bits) {
  std::memcpy(dst, &bits, sizeof(bits));
}
float LoadF16(const uint8_t* src) {
  return F16ToF32(Load16(src));
}

// ---- Blocks of 32. Value j of the first half is the low nibble of byte j, value 16 + j the high nibble of byte j.

// {f16 scale; int8 q[32]}
void DecodeQ8_0(const uint8_t* src, float* dst) {
  const float scale = LoadF16(src);
  for (int j = 0; j < 32; ++j) dst[j] = scale * static_cast<float>(static_cast<int8_t>(src[2 + j]));
}

// {f16 scale; nibbles[16]}, q - 8
void DecodeQ4_0(const uint8_t* src, float* dst) {
  const float scale = LoadF16(src);
  for (int j = 0; j < 16; ++j) {
    dst[j] = scale * static_cast<float>((src[2 + j] & 15) - 8);
    dst[16 + j] = scale * static_cast<float>((src[2 + j] >> 4) - 8);
  }
}

// {f16 scale; f16 minimum; nibbles[16]}
void DecodeQ4_1(const uint8_t* src, float* dst) {
  const float scale = LoadF16(src);
  const float minimum = LoadF16(src + 2);
  for (int j = 0; j < 16; ++j) {
    dst[j] = scale * static_cast<float>(src[4 + j] & 15) + minimum;
    dst[16 + j] = scale * static_cast<float>(src[4 + j] >> 4) + minimum;
  }
}

// {f16 scale; u32 fifth bits, value j at bit j; nibbles[16]}, q - 16
void DecodeQ5_0(const uint8_t* src, float* dst) {
  const float scale = LoadF16(src);
  const uint32_t high = Load32(src + 2);
  for (int j = 0; j < 16; ++j) {
    const int low_half = (src[6 + j] & 15) | static_cast<int>(((high >> j) & 1) << 4);
    const int high_half = (src[6 + j] >> 4) | static_cast<int>(((high >> (16 + j)) & 1) << 4);
    dst[j] = scale * static_cast<float>(low_half - 16);
    dst[16 + j] = scale * static_cast<float>(high_half - 16);
  }
}

// {f16 scale; f16 minimum; u32 fifth bits; nibbles[16]}
void DecodeQ5_1(const uint8_t* src, float* dst) {
  const float scale = LoadF16(src);
  const float minimum = LoadF16(src + 2);
  const uint32_t high = Load32(src + 4);
  for (int j = 0; j < 16; ++j) {
    const int low_half = (src[8 + j] & 15) | static_cast<int>(((high >> j) & 1) << 4);
    const int high_half = (src[8 + j] >> 4) | static_cast<int>(((high >> (16 + j)) & 1) << 4);
    dst[j] = scale * static_cast<float>(low_half) + minimum;
    dst[16 + j] = scale * static_cast<float>(high_half) + minimum;
  }
}

// ---- Super-blocks of 256.

// Eight 6-bit (scale, minimum) pairs in 12 bytes: 0-3 lie in the low six bits of bytes 0-3 and 4-7; pairs 4-7 have
// their low nibbles in bytes 8-11 and their upper two bits in the top of bytes 0-3 and 4-7.
struct ScaleMin {
  float scale;
  float minimum;
};
ScaleMin UnpackScaleMin(const uint8_t* packed, int pair) {
  if (pair < 4) return {static_cast<float>(packed[pair] & 63), static_cast<float>(packed[pair + 4] & 63)};
  const int scale = (packed[pair + 4] & 15) | ((packed[pair - 4] >> 6) << 4);
  const int minimum = (packed[pair + 4] >> 4) | ((packed[pair] >> 6) << 4);
  return {static_cast<float>(scale), static_cast<float>(minimum)};
}

// {f16 scale; f16 minimum; packed[12]; nibbles[128]}: each 32 bytes hold one group of 32 in the low nibbles, the next
// in the high ones.
void DecodeQ4_K(const uint8_t* src, float* dst) {
  const float scale = LoadF16(src);
  const float minimum = LoadF16(src + 2);
  for (int group = 0; group < 8; ++group) {
    const ScaleMin pair = UnpackScaleMin(src + 4, group);
    const float group_scale = scale * pair.scale;
    const float group_minimum = minimum * pair.minimum;
    const uint8_t* nibbles = src + 16 + (group / 2) * 32;
    const int shift = (group % 2) * 4;
    for (int j = 0; j < 32; ++j) {
      dst[group * 32 + j] = group_scale * static_cast<float>((nibbles[j] >> shift) & 15) - group_minimum;
    }
  }
}

// {f16 scale; f16 minimum; packed[12]; fifth bits[32], group g at bit g of byte j; nibbles[128]}
void DecodeQ5_K(const uint8_t* src, float* dst) {
  const float scale = LoadF16(src);
  const float minimum = LoadF16(src + 2);
  const uint8_t* high = src + 16;
  for (int group = 0; group < 8; ++group) {
    const ScaleMin pair = UnpackScaleMin(src + 4, group);
    const float group_scale = scale * pair.scale;
    const float group_minimum = minimum * pair.minimum;
    const uint8_t* nibbles = src + 48 + (group / 2) * 32;
    const int shift = (group % 2) * 4;
    for (int j = 0; j < 32; ++j) {
      const int q = ((nibbles[j] >> shift) & 15) | (((high[j] >> group) & 1) << 4);
      dst[group * 32 + j] = group_scale * static_cast<float>(q) - group_minimum;
    }
  }
}

// {low nibbles[128]; upper two bits[64]; int8 scales[16], one for 16 values; f16 scale}, q - 32. Each half of 128
// values is four runs of 32: runs 0 and 1 in the low nibbles of 64 bytes, runs 2 and 3 in their high nibbles; the upper
// bits of run r are bits 2r and 2r+1 of 32 bytes.
void DecodeQ6_K(const uint8_t* src, float* dst) {
  const float scale = LoadF16(src + 208);
  for (int half = 0; half < 2; ++half) {
    for (int run = 0; run < 4; ++run) {
      const uint8_t* nibbles = src + half * 64 + (run % 2) * 32;
      const uint8_t* high = src + 128 + half * 32;
      const uint8_t* scales = src + 192 + half * 8 + run * 2;
      float* out = dst + half * 128 + run * 32;
      for (int j = 0; j < 32; ++j) {
        const int q = ((nibbles[j] >> (run / 2 * 4)) & 15) | (((high[j] >> (2 * run)) & 3) << 4);
        const float run_scale = scale * static_cast<float>(static_cast<int8_t>(scales[j / 16]));
        out[j] = run_scale * static_cast<float>(q - 32);
      }
    }
  }
}

// ---- Encoders. Values are quantised with the scale as it will be read back (rounded to f16).

int QuantiseClamped(float value, float scale, int offset, int limit) {
  if (scale == 0.0f) return offset;
  const float q = std::nearbyint(value / scale) + static_cast<float>(offset);
  return static_cast<int>(std::fmin(std::fmax(q, 0.0f), static_cast<float>(limit)));  // fmax turns NaN into 0
}

float StoreF16(uint8_t* dst, float value) {
  const uint16_t bits = F32ToF16(std::clamp(value, -65504.0f, 65504.0f));
  Store16(dst, bits);
  return F16ToF32(bits);
}

// The value of largest magnitude, with its sign.
float Extreme(const float* src) {
  float extreme = 0.0f;
  for (int j = 0; j < 32; ++j) {
    if (std::fabs(src[j]) > std::fabs(extreme)) extreme = src[j];
  }
  return extreme;
}

// Puts 32 quantised values of 4 or 5 bits into nibbles and, if `high` is given, fifth bits.
void PackNibbles(const int* q, uint8_t* nibbles, uint8_t* high) {
  uint32_t fifth = 0;
  for (int j = 0; j < 16; ++j) {
    nibbles[j] = static_cast<uint8_t>((q[j] & 15) | ((q[16 + j] & 15) << 4));
    fifth |= static_cast<uint32_t>(q[j] >> 4) << j;
    fifth |= static_cast<uint32_t>(q[16 + j] >> 4) << (16 + j);
  }
  if (high != nullptr) std::memcpy(high, &fifth, sizeof(fifth));
}

void EncodeQ8_0(const float* src, uint8_t* dst) {
  const float scale = StoreF16(dst, std::fabs(Extreme(src)) / 127.0f);
  for (int j = 0; j < 32; ++j) {
    const int q = std::max(QuantiseClamped(src[j], scale, /*offset=*/128, /*limit=*/255), 1) - 128;
    dst[2 + j] = static_cast<uint8_t>(static_cast<int8_t>(q));
  }
}

// The value of largest magnitude gets the most negative code, since that side has one code more.
void EncodeSymmetric(const float* src, uint8_t* dst, int bits) {
  const int offset = 1 << (bits - 1);
  const float scale = StoreF16(dst, Extreme(src) / static_cast<float>(-offset));
  int q[32];
  for (int j = 0; j < 32; ++j) q[j] = QuantiseClamped(src[j], scale, offset, 2 * offset - 1);
  if (bits == 4) {
    PackNibbles(q, dst + 2, nullptr);
  } else {
    PackNibbles(q, dst + 6, dst + 2);
  }
}

void EncodeWithMinimum(const float* src, uint8_t* dst, int bits) {
  const auto [low, high] = std::minmax_element(src, src + 32);
  const int limit = (1 << bits) - 1;
  const float scale = StoreF16(dst, (*high - *low) / static_cast<float>(limit));
  const float minimum = StoreF16(dst + 2, *low);
  int q[32];
  for (int j = 0; j < 32; ++j) q[j] = QuantiseClamped(src[j] - minimum, scale, /*offset=*/0, limit);
  if (bits == 4) {
    PackNibbles(q, dst + 4, nullptr);
  } else {
    PackNibbles(q, dst + 8, dst + 4);
  }
}

void DecodeBlock(Encoding encoding, const uint8_t* src, float* dst) {
  switch (encoding) {
    case Encoding::kQ8_0:
      return DecodeQ8_0(src, dst);
    case Encoding::kQ4_0:
      return DecodeQ4_0(src, dst);
    case Encoding::kQ4_1:
      return DecodeQ4_1(src, dst);
    case Encoding::kQ5_0:
      return DecodeQ5_0(src, dst);
    case Encoding::kQ5_1:
      return DecodeQ5_1(src, dst);
    case Encoding::kQ4_K:
      return DecodeQ4_K(src, dst);
    case Encoding::kQ5_K:
      return DecodeQ5_K(src, dst);
    case Encoding::kQ6_K:
      return DecodeQ6_K(src, dst);
    case Encoding::kF32:
    case Encoding::kF16:
    case Encoding::kBF16:
      break;
  }
  DI_CHECK(false);
}

void EncodeBlock(Encoding encoding, const float* src, uint8_t* dst) {
  switch (encoding) {
    case Encoding::kQ8_0:
      return EncodeQ8_0(src, dst);
    case Encoding::kQ4_0:
      return EncodeSymmetric(src, dst, /*bits=*/4);
    case Encoding::kQ5_0:
      return EncodeSymmetric(src, dst, /*bits=*/5);
    case Encoding::kQ4_1:
      return EncodeWithMinimum(src, dst, /*bits=*/4);
    case Encoding::kQ5_1:
      return EncodeWithMinimum(src, dst, /*bits=*/5);
    default:
      break;
  }
  DI_CHECK(false);
}

}  // namespace

const EncodingInfo& InfoOf(Encoding encoding) {
  return kInfo[static_cast<size_t>(encoding)];
}

std::optional<Encoding> ParseEncoding(std::string_view name) {
  for (int i = 0; i < kNumEncodings; ++i) {
    if (name == kInfo[i].name) return static_cast<Encoding>(i);
  }
  return std::nullopt;
}

size_t RowBytes(Encoding encoding, int64_t elements) {
  const EncodingInfo& info = InfoOf(encoding);
  DI_CHECK(elements >= 0 && elements % info.block_elements == 0);
  return static_cast<size_t>(elements / info.block_elements) * static_cast<size_t>(info.block_bytes);
}

void DecodeRow(Encoding encoding, const void* src, float* dst, int64_t elements) {
  const EncodingInfo& info = InfoOf(encoding);
  DI_CHECK(elements >= 0 && elements % info.block_elements == 0);
  const auto* bytes = static_cast<const uint8_t*>(src);
  switch (encoding) {
    case Encoding::kF32:
      if (elements > 0) std::memcpy(dst, src, static_cast<size_t>(elements) * sizeof(float));
      return;
    case Encoding::kF16:
      for (int64_t i = 0; i < elements; ++i) dst[i] = F16ToF32(Load16(bytes + 2 * i));
      return;
    case Encoding::kBF16:
      for (int64_t i = 0; i < elements; ++i) dst[i] = BF16ToF32(Load16(bytes + 2 * i));
      return;
    default:
      break;
  }
  for (int64_t i = 0; i < elements; i += info.block_elements, bytes += info.block_bytes) {
    DecodeBlock(encoding, bytes, dst + i);
  }
}

bool CanEncode(Encoding encoding) {
  return encoding != Encoding::kQ4_K && encoding != Encoding::kQ5_K && encoding != Encoding::kQ6_K;
}

void EncodeRow(Encoding encoding, const float* src, void* dst, int64_t elements) {
  const EncodingInfo& info = InfoOf(encoding);
  DI_CHECK(elements >= 0 && elements % info.block_elements == 0);
  auto* bytes = static_cast<uint8_t*>(dst);
  switch (encoding) {
    case Encoding::kF32:
      if (elements > 0) std::memcpy(dst, src, static_cast<size_t>(elements) * sizeof(float));
      return;
    case Encoding::kF16:
      for (int64_t i = 0; i < elements; ++i) Store16(bytes + 2 * i, F32ToF16(src[i]));
      return;
    case Encoding::kBF16:
      for (int64_t i = 0; i < elements; ++i) Store16(bytes + 2 * i, F32ToBF16(src[i]));
      return;
    default:
      break;
  }
  for (int64_t i = 0; i < elements; i += info.block_elements, bytes += info.block_bytes) {
    EncodeBlock(encoding, src + i, bytes);
  }
}

}  // namespace deepinfer
