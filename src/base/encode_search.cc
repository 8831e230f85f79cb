// Encoders that search: scales are chosen to make the sum of squared errors small, by trying a row of ranges, rounding
// the values to codes in each, and solving for the scale (and minimum) that suits those codes best. Then the scales
// themselves are rounded and the codes chosen again for what the scales have become. Deterministic.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/codebooks.h"
#include "base/encoding_blocks.h"
#include "base/error.h"

namespace deepinfer {
namespace {

constexpr int kSuper = 256;
constexpr float kLargest = 1e9f;  // far above what f16 scales can reach, and its square sums stay finite

// The integer nearest to `value` in [low, high], ties to even.
float RoundTo(float value, float low, float high) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it leaves no fraction bits
  return (std::min(std::max(value, low), high) + kMagic) - kMagic;
}

// NaN counts as zero.
template <size_t kSize>
std::array<float, kSize> MakeFinite(const float* src) {
  std::array<float, kSize> values;
  for (size_t i = 0; i < kSize; ++i) values[i] = std::isnan(src[i]) ? 0.0f : std::clamp(src[i], -kLargest, kLargest);
  return values;
}

float Extreme(const float* x, int count) {
  float extreme = 0.0f;
  for (int i = 0; i < count; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  return extreme;
}

// Sums for the best scale s of codes q: it is sxq / sqq, and takes sxq^2 / sqq off the squared error.
struct ScaleSums {
  float sxq = 0;
  float sqq = 0;
  void Add(float x, float q) {
    sxq += x * q;
    sqq += q * q;
  }
  float gain() const { return sqq > 0 ? sxq * sxq / sqq : 0.0f; }
  float scale() const { return sqq > 0 ? sxq / sqq : 0.0f; }
};

struct BestScale {
  float gain = 0;
  float scale = 0;
  void Take(const ScaleSums& sums) {
    if (!(sums.gain() > gain)) return;
    gain = sums.gain();
    scale = sums.scale();
  }
};

// x = scale * q with q in [low, -low - 1].
float FitSymmetric(const float* x, int count, int low) {
  const float extreme = Extreme(x, count);
  if (extreme == 0.0f) return 0.0f;
  BestScale best;
  for (int step = -9; step <= 9; ++step) {
    const float inverse = (static_cast<float>(low) + 0.1f * static_cast<float>(step)) / extreme;
    ScaleSums sums;
    for (int i = 0; i < count; ++i) {
      sums.Add(x[i], RoundTo(x[i] * inverse, static_cast<float>(low), static_cast<float>(-low - 1)));
    }
    best.Take(sums);
  }
  return best.scale;
}

// The code whose value is nearest, the lower one of two.
int NearestIq4(float value) {
  int code = 0;
  for (int i = 1; i < 16; ++i) {
    const float middle = 0.5f * static_cast<float>(kIq4Values[i - 1] + kIq4Values[i]);
    code += value > middle ? 1 : 0;
  }
  return code;
}

int Iq4Code(float value, float scale) {
  return NearestIq4(scale == 0.0f ? 1.0f : value / scale);
}

// x = scale * kIq4Values[code].
float FitIq4(const float* x, int count) {
  const float extreme = Extreme(x, count);
  if (extreme == 0.0f) return 0.0f;
  BestScale best;
  for (const int end : {0, 15}) {
    for (int step = -4; step <= 4; ++step) {
      const float inverse = static_cast<float>(kIq4Values[end]) * (1.0f + 0.03f * static_cast<float>(step)) / extreme;
      ScaleSums sums;
      for (int i = 0; i < count; ++i) sums.Add(x[i], static_cast<float>(kIq4Values[NearestIq4(x[i] * inverse)]));
      best.Take(sums);
    }
  }
  return best.scale;
}

// x = scale * q - minimum with q in [0, limit] and neither negative.
struct Affine {
  float scale = 0;
  float minimum = 0;
};

Affine SolveAffine(const float* x, int count, const float* q) {
  float sq = 0, sqq = 0, sx = 0, sxq = 0;
  for (int i = 0; i < count; ++i) {
    sq += q[i];
    sqq += q[i] * q[i];
    sx += x[i];
    sxq += x[i] * q[i];
  }
  const auto n = static_cast<float>(count);
  const float determinant = n * sqq - sq * sq;
  Affine fit;
  if (determinant > 0) fit = {(n * sxq - sx * sq) / determinant, -(sqq * sx - sq * sxq) / determinant};
  if (determinant <= 0 || fit.minimum < 0) fit = {sqq > 0 ? sxq / sqq : 0.0f, 0.0f};
  return {std::max(fit.scale, 0.0f), fit.minimum};
}

Affine FitAffine(const float* x, int count, int limit) {
  const float low = std::min(0.0f, *std::min_element(x, x + count));
  const float high = *std::max_element(x, x + count);
  if (high <= low) return {0.0f, -low};
  Affine best;
  float least = INFINITY;
  for (int step = -5; step <= 10; ++step) {
    const float inverse = (static_cast<float>(limit) + 0.1f * static_cast<float>(step)) / (high - low);
    float q[32];
    for (int i = 0; i < count; ++i) q[i] = RoundTo((x[i] - low) * inverse, 0.0f, static_cast<float>(limit));
    const Affine fit = SolveAffine(x, count, q);
    float error = 0;
    for (int i = 0; i < count; ++i) {
      const float difference = x[i] - (fit.scale * q[i] - fit.minimum);
      error += difference * difference;
    }
    if (error < least) {
      least = error;
      best = fit;
    }
  }
  return best;
}

// A super-block as integers.
struct SuperCodes {
  uint8_t q[kSuper];   // as stored
  int scale[16] = {};  // of the groups
  int minimum[16] = {};
};

// Groups of `count` values with scales and minima of at most scale_limit; d and dmin go to d_out and d_out + 2.
SuperCodes EncodeAffine(const float* src, int count, int limit, int scale_limit, uint8_t* d_out) {
  const std::array<float, kSuper> x = MakeFinite<kSuper>(src);
  Affine fits[16];
  float largest_scale = 0, largest_minimum = 0;
  for (int g = 0; g < kSuper / count; ++g) {
    fits[g] = FitAffine(&x[static_cast<size_t>(g * count)], count, limit);
    largest_scale = std::max(largest_scale, fits[g].scale);
    largest_minimum = std::max(largest_minimum, fits[g].minimum);
  }
  const auto most = static_cast<float>(scale_limit);
  const float d = StoreF16(d_out, largest_scale / most), dmin = StoreF16(d_out + 2, largest_minimum / most);
  SuperCodes codes;
  for (int g = 0; g < kSuper / count; ++g) {
    const float scale = d > 0 ? RoundTo(fits[g].scale / d, 0.0f, most) : 0.0f;
    const float minimum = dmin > 0 ? RoundTo(fits[g].minimum / dmin, 0.0f, most) : 0.0f;
    codes.scale[g] = static_cast<int>(scale);
    codes.minimum[g] = static_cast<int>(minimum);
    for (int i = g * count; i < (g + 1) * count; ++i) {
      const float shifted = x[static_cast<size_t>(i)] + dmin * minimum;
      const float q = scale > 0 ? RoundTo(shifted / (d * scale), 0.0f, static_cast<float>(limit)) : 0.0f;
      codes.q[i] = static_cast<uint8_t>(q);
    }
  }
  return codes;
}

// Groups of `count` values with scales in [scale_low, -scale_low - 1]; d goes to d_out. fit(x): the scale of a group;
// code(value, scale): the code as stored.
template <class Fit, class Code>
SuperCodes EncodeScaled(const float* src, int count, int scale_low, uint8_t* d_out, Fit fit, Code code) {
  const std::array<float, kSuper> x = MakeFinite<kSuper>(src);
  float scales[16];
  for (int g = 0; g < kSuper / count; ++g) scales[g] = fit(&x[static_cast<size_t>(g * count)]);
  const float d = StoreF16(d_out, Extreme(scales, kSuper / count) / static_cast<float>(scale_low));
  SuperCodes codes;
  for (int g = 0; g < kSuper / count; ++g) {
    const auto low = static_cast<float>(scale_low);
    const float scale = d != 0 ? RoundTo(scales[g] / d, low, -low - 1) : 0.0f;
    codes.scale[g] = static_cast<int>(scale);
    for (int i = g * count; i < (g + 1) * count; ++i) codes.q[i] = code(x[static_cast<size_t>(i)], d * scale);
  }
  return codes;
}

SuperCodes EncodeSymmetric(const float* src, int low, int scale_low, uint8_t* d_out) {
  constexpr int kCount = 16;
  return EncodeScaled(
      src, kCount, scale_low, d_out, [&](const float* x) { return FitSymmetric(x, kCount, low); },
      [&](float value, float scale) {
        const float q =
            scale != 0 ? RoundTo(value / scale, static_cast<float>(low), static_cast<float>(-low - 1)) : 0.0f;
        return static_cast<uint8_t>(static_cast<int>(q) - low);
      });
}

// ---- Into bytes: the layouts are described in decode_blocks.cc.

void StoreTwoBits(const uint8_t* q, uint8_t* bytes) {
  for (int i = 0; i < kSuper; ++i) {
    uint8_t& byte = bytes[i / 128 * 32 + i % 32];
    byte = static_cast<uint8_t>(byte | (q[i] & 3) << (i / 32 % 4 * 2));
  }
}

void EncodeQ2_K(const float* src, uint8_t* dst) {
  const SuperCodes codes = EncodeAffine(src, 16, /*limit=*/3, /*scale_limit=*/15, dst + 80);
  for (int g = 0; g < 16; ++g) dst[g] = static_cast<uint8_t>(codes.scale[g] | codes.minimum[g] << 4);
  StoreTwoBits(codes.q, dst + 16);
}

void EncodeQ3_K(const float* src, uint8_t* dst) {
  const SuperCodes codes = EncodeSymmetric(src, /*low=*/-4, /*scale_low=*/-32, dst + 108);
  for (int g = 0; g < 16; ++g) {
    const int scale = codes.scale[g] + 32;
    dst[96 + g % 8] = static_cast<uint8_t>(dst[96 + g % 8] | (scale & 15) << (g / 8 * 4));
    dst[104 + g % 4] = static_cast<uint8_t>(dst[104 + g % 4] | (scale >> 4) << (g / 4 * 2));
  }
  StoreTwoBits(codes.q, dst + 32);
  for (int i = 0; i < kSuper; ++i) dst[i % 32] = static_cast<uint8_t>(dst[i % 32] | (codes.q[i] >> 2) << (i / 32));
}

void EncodeQ45_K(int bits, const float* src, uint8_t* dst) {
  const SuperCodes codes = EncodeAffine(src, 32, (1 << bits) - 1, /*scale_limit=*/63, dst);
  uint8_t* packed = dst + 4;
  for (int g = 0; g < 8; ++g) {
    const int scale = codes.scale[g], minimum = codes.minimum[g];
    if (g < 4) {
      packed[g] = static_cast<uint8_t>(scale);
      packed[g + 4] = static_cast<uint8_t>(minimum);
    } else {
      packed[g + 4] = static_cast<uint8_t>((scale & 15) | (minimum & 15) << 4);
      packed[g - 4] = static_cast<uint8_t>(packed[g - 4] | (scale >> 4) << 6);
      packed[g] = static_cast<uint8_t>(packed[g] | (minimum >> 4) << 6);
    }
  }
  uint8_t* nibbles = dst + (bits == 5 ? 48 : 16);
  for (int i = 0; i < kSuper; ++i) {
    uint8_t& byte = nibbles[i / 64 * 32 + i % 32];
    byte = static_cast<uint8_t>(byte | (codes.q[i] & 15) << (i / 32 % 2 * 4));
    if (bits == 5) dst[16 + i % 32] = static_cast<uint8_t>(dst[16 + i % 32] | (codes.q[i] >> 4) << (i / 32));
  }
}

void EncodeQ6_K(const float* src, uint8_t* dst) {
  const SuperCodes codes = EncodeSymmetric(src, /*low=*/-32, /*scale_low=*/-128, dst + 208);
  for (int g = 0; g < 16; ++g) dst[192 + g] = static_cast<uint8_t>(codes.scale[g]);
  for (int i = 0; i < kSuper; ++i) {
    const int half = i / 128, run = i / 32 % 4;
    uint8_t& low = dst[half * 64 + run % 2 * 32 + i % 32];
    uint8_t& high = dst[128 + half * 32 + i % 32];
    low = static_cast<uint8_t>(low | (codes.q[i] & 15) << (run / 2 * 4));
    high = static_cast<uint8_t>(high | (codes.q[i] >> 4) << (2 * run));
  }
}

void EncodeIQ4_NL(const float* src, uint8_t* dst) {
  const std::array<float, 32> x = MakeFinite<32>(src);
  const float scale = StoreF16(dst, FitIq4(x.data(), 32));
  uint8_t q[32];
  for (size_t i = 0; i < 32; ++i) q[i] = static_cast<uint8_t>(Iq4Code(x[i], scale));
  PackNibbles(q, dst + 2);
}

void EncodeIQ4_XS(const float* src, uint8_t* dst) {
  const SuperCodes codes = EncodeScaled(
      src, 32, /*scale_low=*/-32, dst, [](const float* x) { return FitIq4(x, 32); },
      [](float value, float scale) { return static_cast<uint8_t>(Iq4Code(value, scale)); });
  uint16_t upper = 0;
  for (int g = 0; g < 8; ++g) {
    const int scale = codes.scale[g] + 32;
    dst[4 + g / 2] = static_cast<uint8_t>(dst[4 + g / 2] | (scale & 15) << (g % 2 * 4));
    upper = static_cast<uint16_t>(upper | (scale >> 4) << (2 * g));
    PackNibbles(codes.q + 32 * g, dst + 8 + 16 * g);
  }
  StoreBits16(dst + 2, upper);
}

// The E2M1 code whose value is nearest to half of `doubled`, the smaller magnitude of two.
uint8_t NearestE2m1(float doubled) {
  const float magnitude = std::fabs(doubled);
  uint8_t code = 0;
  for (int i = 1; i < 8; ++i) {
    code = static_cast<uint8_t>(code + (magnitude > 0.5f * static_cast<float>(kE2m1Doubled[i - 1] + kE2m1Doubled[i])));
  }
  return static_cast<uint8_t>(doubled < 0 && code > 0 ? code | 8 : code);
}

// The largest value comes to lie in [2, 4) or [4, 8) times the scale; 6 is the largest code.
void EncodeMXFP4(const float* src, uint8_t* dst) {
  const std::array<float, 32> x = MakeFinite<32>(src);
  const float largest = std::fabs(Extreme(x.data(), 32));
  if (largest < 0x1p-120f) return;  // exponent 0: all zero
  uint8_t q[32];
  float least = INFINITY;
  for (int exponent = std::ilogb(largest) - 2; exponent <= std::ilogb(largest) - 1; ++exponent) {
    const float scale = std::ldexp(0.5f, exponent);  // of the doubled values
    uint8_t codes[32];
    float error = 0;
    for (size_t i = 0; i < 32; ++i) {
      codes[i] = NearestE2m1(x[i] / scale);
      const float difference = x[i] - scale * static_cast<float>(kE2m1Doubled[codes[i]]);
      error += difference * difference;
    }
    if (error >= least) continue;
    least = error;
    dst[0] = static_cast<uint8_t>(exponent + 127);
    std::copy(codes, codes + 32, q);
  }
  PackNibbles(q, dst + 1);
}

}  // namespace

void EncodeSearchedBlock(Encoding encoding, const float* src, uint8_t* dst) {
  std::memset(dst, 0, static_cast<size_t>(InfoOf(encoding).block_bytes));
  switch (encoding) {
    case Encoding::kQ2_K:
      return EncodeQ2_K(src, dst);
    case Encoding::kQ3_K:
      return EncodeQ3_K(src, dst);
    case Encoding::kQ4_K:
      return EncodeQ45_K(4, src, dst);
    case Encoding::kQ5_K:
      return EncodeQ45_K(5, src, dst);
    case Encoding::kQ6_K:
      return EncodeQ6_K(src, dst);
    case Encoding::kIQ4_NL:
      return EncodeIQ4_NL(src, dst);
    case Encoding::kIQ4_XS:
      return EncodeIQ4_XS(src, dst);
    case Encoding::kMXFP4:
      return EncodeMXFP4(src, dst);
    default:
      break;
  }
  DI_CHECK(false);
}

}  // namespace deepinfer
