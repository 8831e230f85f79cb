#include "base/fixed_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/numerics.h"

namespace deepinfer {
namespace {

constexpr double kUlp = std::numeric_limits<double>::epsilon();

TEST(FixedMath, ExpAndLogAreWithinTwoUlp) {
  std::mt19937_64 rng(1);
  std::uniform_real_distribution<double> exponents(-700, 700);
  for (int i = 0; i < 100000; ++i) {
    const double x = i % 2 == 0 ? exponents(rng) : exponents(rng) / 700;
    const double e = std::exp(x);
    ASSERT_NEAR(FixedExp(x), e, 2 * kUlp * e) << x;
    // Near 1 the logarithm is small, and so is what an ulp of it is.
    const double y = i % 2 == 0 ? e : 1 + x / 1000;
    ASSERT_NEAR(FixedLog(y), std::log(y), 2 * kUlp * std::fabs(std::log(y))) << y;
  }
  EXPECT_EQ(FixedExp(0), 1);
  EXPECT_EQ(FixedLog(1), 0);
  EXPECT_EQ(FixedExp(-1000), 0);
  EXPECT_EQ(FixedExp(1000), std::numeric_limits<double>::infinity());
  EXPECT_EQ(FixedLog(0), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(FixedLog(-1)));
  EXPECT_TRUE(std::isnan(FixedExp(NAN)));
}

TEST(FixedMath, PowOfRopeFrequencies) {
  for (const double theta : {1e4, 5e5, 1e6, 1e7}) {
    for (int i = 0; i < 128; ++i) {
      const double want = std::pow(theta, -i / 128.0);
      EXPECT_NEAR(FixedPow(theta, -i / 128.0), want, 1e-14 * want);
      EXPECT_EQ(static_cast<float>(FixedPow(theta, -i / 128.0)), static_cast<float>(want)) << theta << " " << i;
    }
  }
}

TEST(FixedMath, SineAndCosineOfAnyAngle) {
  std::mt19937 rng(2);
  std::uniform_real_distribution<float> scale(-30, 127);
  for (int i = 0; i < 200000; ++i) {
    const float angle = static_cast<float>(std::exp2(scale(rng))) * (i % 2 == 0 ? 1.0f : -1.0f);
    const SineCosine got = FixedSineCosine(angle);
    ASSERT_NEAR(got.sine, std::sin(double{angle}), 4 * kUlp * std::fabs(std::sin(double{angle}))) << angle;
    ASSERT_NEAR(got.cosine, std::cos(double{angle}), 4 * kUlp * std::fabs(std::cos(double{angle}))) << angle;
  }
  EXPECT_EQ(FixedSineCosine(0).sine, 0);
  EXPECT_EQ(FixedSineCosine(0).cosine, 1);
  EXPECT_TRUE(std::isnan(FixedSineCosine(INFINITY).cosine));
}

// What any machine must compute; these bits are this file's own, not a library's.
TEST(FixedMath, BitsAreFixed) {
  double sum = 0;
  for (int i = 1; i <= 1000; ++i) {
    const SineCosine turn = FixedSineCosine(static_cast<float>(i) * 37.25f);
    sum += FixedExp(turn.sine) * FixedLog(2 + turn.cosine) / i;
  }
  EXPECT_EQ(sum, 0x1.4b9ceb71f570cp2);
}

TEST(Numerics, NamesAreParsed) {
  for (const Numerics numerics : kAllNumerics) EXPECT_EQ(ParseNumerics(ToString(numerics)), numerics);
  EXPECT_FALSE(ParseNumerics("best").has_value());
}

}  // namespace
}  // namespace deepinfer
