#include <algorithm>
#include <cmath>
#include <limits>

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

// The value of largest magnitude, with its sign.
float Extreme(const float* src) {
  float extreme = 0.0f;
  for (int j = 0; j < 32; ++j) {
    if (std::fabs(src[j]) > std::fabs(extreme)) extreme = src[j];
  }
  return extreme;
}

void PackFifthBits(const uint8_t* q, uint8_t* dst) {
  uint32_t fifth = 0;
  for (int j = 0; j < 32; ++j) fifth |= static_cast<uint32_t>(q[j] >> 4) << j;
  std::memcpy(dst, &fifth, sizeof(fifth));
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
  uint8_t q[32];
  for (int j = 0; j < 32; ++j) q[j] = static_cast<uint8_t>(QuantiseClamped(src[j], scale, offset, 2 * offset - 1));
  PackNibbles(q, dst + (bits == 4 ? 2 : 6));
  if (bits == 5) PackFifthBits(q, dst + 2);
}

void EncodeWithMinimum(const float* src, uint8_t* dst, int bits) {
  const auto [low, high] = std::minmax_element(src, src + 32);
  const int limit = (1 << bits) - 1;
  const float scale = StoreF16(dst, (*high - *low) / static_cast<float>(limit));
  const float minimum = StoreF16(dst + 2, *low);
  uint8_t q[32];
  for (int j = 0; j < 32; ++j) {
    q[j] = static_cast<uint8_t>(QuantiseClamped(src[j] - minimum, scale, /*offset=*/0, limit));
  }
  PackNibbles(q, dst + (bits == 4 ? 4 : 8));
  if (bits == 5) PackFifthBits(q, dst + 4);
}

// The largest magnitude of `elements` values. NaN is passed over.
float LargestMagnitude(const float* src, int64_t elements) {
  float largest = 0.0f;
  for (int64_t i = 0; i < elements; ++i) largest = std::fmax(largest, std::fabs(src[i]));
  return std::fmin(largest, std::numeric_limits<float>::max());
}

// Codes of one value of fp8 or int8 in a run of the scale 1 / inverse.
uint8_t ScaledCode(Encoding encoding, float value, float inverse) {
  const float scaled = value * inverse;
  if (encoding == Encoding::kFP8) return std::isnan(scaled) ? 0 : F32ToF8E4M3(scaled);
  return static_cast<uint8_t>(static_cast<int8_t>(std::max(QuantiseClamped(scaled, 1.0f, 128, 255), 1) - 128));
}

void EncodeScaledRun(Encoding encoding, const float* src, int64_t elements, uint8_t* dst) {
  const float largest_code = encoding == Encoding::kFP8 ? 448.0f : 127.0f;
  float scale = LargestMagnitude(src, elements) / largest_code;
  if (scale < std::numeric_limits<float>::min()) scale = 0.0f;  // no subnormals: threads flush them
  const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
  for (int64_t i = 0; i < elements; i += 32, dst += 36) {
    std::memcpy(dst, &scale, sizeof(scale));
    for (int j = 0; j < 32; ++j) dst[4 + j] = ScaledCode(encoding, src[i + j], inverse);
  }
}

void EncodeInt4Run(const float* src, int64_t elements, uint8_t* dst) {
  float low = 0.0f, high = 0.0f;  // zero must be among the values
  for (int64_t i = 0; i < elements; ++i) {
    low = std::fmin(low, src[i]);
    high = std::fmax(high, src[i]);
  }
  uint8_t head[3];
  const float scale = StoreF16(head, (high - low) / 15.0f);
  head[2] = static_cast<uint8_t>(QuantiseClamped(-low, scale, /*offset=*/0, /*limit=*/15));
  for (int64_t i = 0; i < elements; i += 32, dst += 19) {
    std::memcpy(dst, head, sizeof(head));
    uint8_t q[32];
    for (int j = 0; j < 32; ++j) {
      q[j] = static_cast<uint8_t>(QuantiseClamped(src[i + j], scale, head[2], /*limit=*/15));
    }
    PackNibbles(q, dst + 3);
  }
}

}  // namespace

float StoreF16(uint8_t* dst, float value) {
  const uint16_t bits = F32ToF16(std::clamp(value, -65504.0f, 65504.0f));
  StoreBits16(dst, bits);
  return F16ToF32(bits);
}

void PackNibbles(const uint8_t* q, uint8_t* nibbles) {
  for (int j = 0; j < 16; ++j) nibbles[j] = static_cast<uint8_t>((q[j] & 15) | (q[16 + j] & 15) << 4);
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
      return EncodeSearchedBlock(encoding, src, dst);
  }
}

void EncodeRun(Encoding encoding, const float* src, int64_t elements, uint8_t* dst) {
  if (encoding == Encoding::kFP8 || encoding == Encoding::kInt8) {
    return EncodeScaledRun(encoding, src, elements, dst);
  }
  DI_CHECK(encoding == Encoding::kInt4 || encoding == Encoding::kInt4G32);
  EncodeInt4Run(src, elements, dst);
}

}  // namespace deepinfer
