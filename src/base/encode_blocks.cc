#include <algorithm>
#include <cmath>

#include "base/encoding_blocks.h"
#include "base/error.h"
#include "base/half.h"

namespace deepinfer {
namespace {

// ---- Encoders. Values are quantised with the scale as it will be read back (rounded to f16).

int QuantiseClamped(float value, float scale, int offset, int limit) {
  if (scale == 0.0f) return offset;
  const float q = std::nearbyint(value / scale) + static_cast<float>(offset);
  return static_cast<int>(std::fmin(std::fmax(q, 0.0f), static_cast<float>(limit)));  // fmax turns NaN into 0
}

float StoreF16(uint8_t* dst, float value) {
  const uint16_t bits = F32ToF16(std::clamp(value, -65504.0f, 65504.0f));
  StoreBits16(dst, bits);
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

}  // namespace

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

}  // namespace deepinfer
