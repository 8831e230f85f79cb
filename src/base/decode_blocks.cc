#include <bit>

#include "base/codebooks.h"
#include "base/encoding_blocks.h"
#include "base/error.h"
#include "base/half.h"

namespace deepinfer {
namespace {

uint32_t Load32(const uint8_t* src) {
  uint32_t bits;
  std::memcpy(&bits, src, sizeof(bits));
  return bits;
}
float LoadF32(const uint8_t* src) {
  return std::bit_cast<float>(Load32(src));
}
float LoadF16(const uint8_t* src) {
  return F16ToF32(LoadBits16(src));
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

// {f16 scale; nibbles[16]}, each a code of kIq4Values
void DecodeIQ4_NL(const uint8_t* src, float* dst) {
  const float scale = LoadF16(src);
  for (int j = 0; j < 16; ++j) {
    dst[j] = scale * static_cast<float>(kIq4Values[src[2 + j] & 15]);
    dst[16 + j] = scale * static_cast<float>(kIq4Values[src[2 + j] >> 4]);
  }
}

// {u8 exponent; nibbles[16]}, each an E2M1 code. The codebook is doubled, so the scale 2^(exponent - 127) is halved.
// Where that is no normal f32 it is taken for zero, as threads that flush subnormals would.
void DecodeMXFP4(const uint8_t* src, float* dst) {
  const uint32_t exponent = src[0] > 0 ? src[0] - 1u : 0u;
  const float scale = std::bit_cast<float>(exponent << 23);
  for (int j = 0; j < 16; ++j) {
    dst[j] = scale * static_cast<float>(kE2m1Doubled[src[1 + j] & 15]);
    dst[16 + j] = scale * static_cast<float>(kE2m1Doubled[src[1 + j] >> 4]);
  }
}

// {f32 scale; e4m3[32]}
void DecodeFP8(const uint8_t* src, float* dst) {
  const float scale = LoadF32(src);
  for (int j = 0; j < 32; ++j) dst[j] = scale * F8E4M3ToF32(src[4 + j]);
}

// {f32 scale; int8 q[32]}
void DecodeInt8(const uint8_t* src, float* dst) {
  const float scale = LoadF32(src);
  for (int j = 0; j < 32; ++j) dst[j] = scale * static_cast<float>(static_cast<int8_t>(src[4 + j]));
}

// {f16 scale; u8 zero; nibbles[16]}, scale * (q - zero), which is exact
void DecodeInt4(const uint8_t* src, float* dst) {
  const float scale = LoadF16(src);
  const float zero = scale * static_cast<float>(src[2]);
  for (int j = 0; j < 16; ++j) {
    dst[j] = scale * static_cast<float>(src[3 + j] & 15) - zero;
    dst[16 + j] = scale * static_cast<float>(src[3 + j] >> 4) - zero;
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

// Where two bits of value `index` lie in 64 bytes: each half of 128 values is four runs of 32; run r of a half is bits
// 2r and 2r + 1 of 32 bytes.
int TwoBits(const uint8_t* bytes, int index) {
  return (bytes[index / 128 * 32 + index % 32] >> (index / 32 % 4 * 2)) & 3;
}

// {u8 scales[16], one for 16 values: scale in the low nibble, minimum in the high one; two bits[64]; f16 scale; f16
// minimum}
void DecodeQ2_K(const uint8_t* src, float* dst) {
  const float scale = LoadF16(src + 80);
  const float minimum = LoadF16(src + 82);
  for (int i = 0; i < 256; ++i) {
    const uint8_t pair = src[i / 16];
    const float group_scale = scale * static_cast<float>(pair & 15);
    const float group_minimum = minimum * static_cast<float>(pair >> 4);
    dst[i] = group_scale * static_cast<float>(TwoBits(src + 16, i)) - group_minimum;
  }
}

// {third bits[32], run r of 32 values at bit r; two bits[64]; packed[12]; f16 scale}, q - 4. Sixteen 6-bit scales, less
// 32: the low nibbles of 0-7 are those of bytes 0-7, of 8-15 their high nibbles; scale i has its upper two bits in bits
// 2(i / 4) of byte 8 + i % 4.
void DecodeQ3_K(const uint8_t* src, float* dst) {
  const uint8_t* packed = src + 96;
  const float scale = LoadF16(src + 108);
  for (int i = 0; i < 256; ++i) {
    const int group = i / 16;
    const int low = (packed[group % 8] >> (group / 8 * 4)) & 15;
    const int high = (packed[8 + group % 4] >> (group / 4 * 2)) & 3;
    const float group_scale = scale * static_cast<float>((low | high << 4) - 32);
    const int q = TwoBits(src + 32, i) | ((src[i % 32] >> (i / 32)) & 1) << 2;
    dst[i] = group_scale * static_cast<float>(q - 4);
  }
}

// {f16 scale; u16 upper scale bits, group g at bits 2g; low scale nibbles[4]; nibbles[128]}: eight groups of 32, each
// as in iq4_nl, with 6-bit scales less 32.
void DecodeIQ4_XS(const uint8_t* src, float* dst) {
  const float scale = LoadF16(src);
  const uint16_t upper = LoadBits16(src + 2);
  for (int group = 0; group < 8; ++group) {
    const int low = (src[4 + group / 2] >> (group % 2 * 4)) & 15;
    const float group_scale = scale * static_cast<float>((low | ((upper >> (2 * group)) & 3) << 4) - 32);
    const uint8_t* nibbles = src + 8 + group * 16;
    for (int j = 0; j < 16; ++j) {
      dst[group * 32 + j] = group_scale * static_cast<float>(kIq4Values[nibbles[j] & 15]);
      dst[group * 32 + 16 + j] = group_scale * static_cast<float>(kIq4Values[nibbles[j] >> 4]);
    }
  }
}

}  // namespace

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
    case Encoding::kQ2_K:
      return DecodeQ2_K(src, dst);
    case Encoding::kQ3_K:
      return DecodeQ3_K(src, dst);
    case Encoding::kIQ4_NL:
      return DecodeIQ4_NL(src, dst);
    case Encoding::kIQ4_XS:
      return DecodeIQ4_XS(src, dst);
    case Encoding::kMXFP4:
      return DecodeMXFP4(src, dst);
    case Encoding::kFP8:
      return DecodeFP8(src, dst);
    case Encoding::kInt8:
      return DecodeInt8(src, dst);
    case Encoding::kInt4:
    case Encoding::kInt4G32:
      return DecodeInt4(src, dst);
    case Encoding::kF32:
    case Encoding::kF16:
    case Encoding::kBF16:
      break;
  }
  DI_CHECK(false);
}

}  // namespace deepinfer
