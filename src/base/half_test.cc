#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace deepinfer {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// The value by the definition of the format, through double arithmetic.
double ByDefinition(int sign, int exponent, int mantissa, int mantissa_bits, int bias) {
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1.0 + fraction, exponent - bias);
  return sign != 0 ? -magnitude : magnitude;
}

TEST(HalfTest, EveryF16ValueDecodesByDefinitionAndRoundTrips) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = F16ToF32(static_cast<uint16_t>(bits));
    const int exponent = (bits >> 10) & 31;
    const int mantissa = bits & 1023;
    if (exponent == 31 && mantissa != 0) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_EQ(F32ToF16(value), bits | 0x200u) << bits;
      continue;
    }
    if (exponent == 31) {
      ASSERT_EQ(value, (bits & 0x8000u) != 0 ? -kInf : kInf);
    } else {
      ASSERT_EQ(value, ByDefinition(bits >> 15, exponent, mantissa, 10, 15)) << bits;
    }
    ASSERT_EQ(std::signbit(value), (bits & 0x8000u) != 0) << bits;
    ASSERT_EQ(F32ToF16(value), bits) << bits;
  }
}

TEST(HalfTest, F16RoundsHalfwayCasesToEvenBetweenAllNeighbours) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = F16ToF32(static_cast<uint16_t>(bits));
    const float high = F16ToF32(static_cast<uint16_t>(bits + 1));
    const float middle = low + (high - low) * 0.5f;
    ASSERT_EQ(F32ToF16(middle), (bits & 1) != 0 ? bits + 1 : bits) << bits;
    ASSERT_EQ(F32ToF16(std::nextafter(middle, 0.0f)), bits) << bits;
    ASSERT_EQ(F32ToF16(std::nextafter(middle, kInf)), bits + 1) << bits;
    ASSERT_EQ(F32ToF16(-middle), ((bits & 1) != 0 ? bits + 1 : bits) | 0x8000u) << bits;
  }
}

TEST(HalfTest, F16Edges) {
  EXPECT_EQ(F32ToF16(65504.0f), 0x7bff);
  EXPECT_EQ(F32ToF16(65519.996f), 0x7bff);
  EXPECT_EQ(F32ToF16(65520.0f), 0x7c00);
  EXPECT_EQ(F32ToF16(-1e30f), 0xfc00);
  EXPECT_EQ(F32ToF16(kInf), 0x7c00);
  EXPECT_EQ(F32ToF16(0x1p-25f), 0);
  EXPECT_EQ(F32ToF16(0x1.000002p-25f), 1);
  EXPECT_EQ(F32ToF16(0x1p-149f), 0);
  EXPECT_EQ(F32ToF16(-0.0f), 0x8000);
}

TEST(HalfTest, BF16RoundTripsAndRoundsToEven) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = BF16ToF32(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(BF16ToF32(F32ToBF16(value)))) << bits;
    } else {
      ASSERT_EQ(F32ToBF16(value), bits);
    }
  }
  EXPECT_EQ(F32ToBF16(1.00390625f), 0x3f80);  // 1 + 2^-8, halfway: to even
  EXPECT_EQ(F32ToBF16(1.01171875f), 0x3f82);  // 1 + 3*2^-8, halfway: to even
  EXPECT_EQ(F32ToBF16(1.00390637f), 0x3f81);  // just above halfway
  EXPECT_EQ(F32ToBF16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(F32ToBF16(std::bit_cast<float>(0x7f800001u)) & 0x7fc0, 0x7fc0);  // a NaN never becomes infinity
}

TEST(HalfTest, EveryF8ValueDecodesByDefinitionAndRoundTrips) {
  for (uint32_t bits = 0; bits < 256; ++bits) {
    const float value = F8E4M3ToF32(static_cast<uint8_t>(bits));
    if ((bits & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_EQ(F32ToF8E4M3(value), bits);
      continue;
    }
    EXPECT_EQ(value, ByDefinition(bits >> 7, (bits >> 3) & 15, bits & 7, 3, 7)) << bits;
    EXPECT_LE(std::fabs(value), 448.0f);
    EXPECT_EQ(F32ToF8E4M3(value), bits);
  }
}

TEST(HalfTest, F8RoundsHalfwayCasesToEvenBetweenAllNeighbours) {
  for (uint32_t bits = 0; bits < 0x7e; ++bits) {
    const float low = F8E4M3ToF32(static_cast<uint8_t>(bits));
    const float middle = (low + F8E4M3ToF32(static_cast<uint8_t>(bits + 1))) * 0.5f;
    EXPECT_EQ(F32ToF8E4M3(middle), (bits & 1) != 0 ? bits + 1 : bits) << bits;
    EXPECT_EQ(F32ToF8E4M3(std::nextafter(middle, 0.0f)), bits) << bits;
    EXPECT_EQ(F32ToF8E4M3(std::nextafter(middle, kInf)), bits + 1) << bits;
  }
}

TEST(HalfTest, F8SaturatesAndKeepsNaN) {
  EXPECT_EQ(F32ToF8E4M3(448.0f), 0x7e);
  EXPECT_EQ(F32ToF8E4M3(464.0f), 0x7e);
  EXPECT_EQ(F32ToF8E4M3(465.0f), 0x7e);
  EXPECT_EQ(F32ToF8E4M3(1000.0f), 0x7e);
  EXPECT_EQ(F32ToF8E4M3(-1000.0f), 0xfe);
  EXPECT_EQ(F32ToF8E4M3(kInf), 0x7e);
  EXPECT_EQ(F32ToF8E4M3(-kInf), 0xfe);
  EXPECT_EQ(F32ToF8E4M3(kNaN), 0x7f);
  EXPECT_EQ(F32ToF8E4M3(0x1p-10f), 0);  // half of the smallest subnormal: tie to even
  EXPECT_EQ(F32ToF8E4M3(0x1.000002p-10f), 1);
}

}  // namespace
}  // namespace deepinfer
