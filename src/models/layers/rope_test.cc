#include "models/layers/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace deepinfer::models {
namespace {

void ExpectFrequencies(const RopeConfig& config, const std::map<int, double>& expected) {
  const RopeFrequencies rope = ComputeRope(config);
  ASSERT_EQ(static_cast<int64_t>(rope.inverse.size()), config.dim / 2);
  for (const auto& [pair, value] : expected) EXPECT_NEAR(rope.inverse[pair], value, value * 4e-7) << "pair " << pair;
}

RopeConfig Plain(double theta, int64_t dim) {
  RopeConfig config;
  config.theta = theta;
  config.dim = dim;
  return config;
}

RopeConfig Llama3(int64_t dim, double factor) {
  RopeConfig config = Plain(5e5, dim);
  config.type = RopeType::kLlama3;
  config.factor = factor;
  config.original_max_positions = 8192;
  return config;
}

RopeConfig Yarn(double factor) {
  RopeConfig config = Plain(1e6, 128);
  config.type = RopeType::kYarn;
  config.factor = factor;
  config.original_max_positions = 32768;
  return config;
}

TEST(RopeTest, DefaultAndLinear) {
  ExpectFrequencies(Plain(10000, 64), {{0, 1.0}, {1, 0.749894209}, {31, 1.33352143e-4}});
  RopeConfig linear = Plain(10000, 64);
  linear.type = RopeType::kLinear;
  linear.factor = 8;
  ExpectFrequencies(linear, {{0, 0.125}, {1, 0.0937367752}, {31, 1.66690188e-05}});
}

TEST(RopeTest, Llama31) {
  const RopeConfig config = Llama3(128, 8);
  ExpectFrequencies(config, {{29, 0.00216657076}, {32, 0.000524846161}, {34, 0.000178507813}, {35, 9.55621235e-05}});
  const std::vector<float> plain = ComputeRope(Plain(5e5, 128)).inverse;
  const std::vector<float> scaled = ComputeRope(config).inverse;
  for (int i = 0; i <= 28; ++i) EXPECT_EQ(scaled[i], plain[i]) << i;
  for (int i = 35; i < 64; ++i) EXPECT_NEAR(scaled[i], plain[i] / 8, plain[i] * 1e-7) << i;
}

TEST(RopeTest, Llama32) {
  const RopeConfig config = Llama3(64, 32);
  ExpectFrequencies(config, {{15, 0.00129054793}, {16, 0.000429556797}, {17, 9.7082878e-05}});
  const std::vector<float> plain = ComputeRope(Plain(5e5, 64)).inverse;
  const std::vector<float> scaled = ComputeRope(config).inverse;
  for (int i = 0; i <= 14; ++i) EXPECT_EQ(scaled[i], plain[i]) << i;
  for (int i = 18; i < 32; ++i) EXPECT_NEAR(scaled[i], plain[i] / 32, plain[i] * 1e-7) << i;
}

TEST(RopeTest, YarnRamp) {
  ExpectFrequencies(Yarn(4), {{0, 1.0},
                              {22, 0.00865964312},
                              {23, 0.00697830599},
                              {24, 0.00537532149},
                              {30, 0.00106436096},
                              {39, 6.4903943e-05},
                              {40, 4.44569851e-05},
                              {63, 3.10234441e-07}});
  const std::vector<float> plain = ComputeRope(Plain(1e6, 128)).inverse;
  const std::vector<float> scaled = ComputeRope(Yarn(4)).inverse;
  EXPECT_EQ(scaled[23], plain[23]);
  EXPECT_LT(scaled[24], plain[24] * 0.99f);
  EXPECT_GT(scaled[39], plain[39] / 4 * 1.01f);
  EXPECT_NEAR(scaled[40], plain[40] / 4, plain[40] * 1e-7);
}

TEST(RopeTest, YarnOptions) {
  RopeConfig config = Yarn(4);
  config.truncate = false;
  ExpectFrequencies(config, {{24, 0.00551727042}, {30, 0.00107923767}, {39, 6.18780759e-05}});
  config = Yarn(4);
  config.beta_fast = 16;
  config.beta_slow = 2;
  ExpectFrequencies(config, {{24, 0.00562341325}, {30, 0.0011199466}, {39, 5.51683552e-05}});
}

TEST(RopeTest, YarnAttentionFactor) {
  EXPECT_NEAR(ComputeRope(Yarn(4)).attention_factor, 1.138629, 1e-6);
  EXPECT_NEAR(ComputeRope(Yarn(40)).attention_factor, 1.368888, 1e-6);
  RopeConfig config = Yarn(4);
  config.mscale = 1.0;
  EXPECT_NEAR(ComputeRope(config).attention_factor, 1.138629, 1e-6) << "mscale alone changes nothing";
  config.mscale_all_dim = 0.8;
  EXPECT_NEAR(ComputeRope(config).attention_factor, 1.0249579607969668, 1e-12);
  config.attention_factor = 1.25;
  EXPECT_EQ(ComputeRope(config).attention_factor, 1.25);
  EXPECT_EQ(ComputeRope(Llama3(128, 8)).attention_factor, 1.0);
}

// cos and sin of every pair at the positions where ignored scaling shows.
TEST(RopeTest, ScalingShowsAtLongPositions) {
  const std::vector<float> plain = ComputeRope(Plain(5e5, 128)).inverse;
  const std::vector<float> scaled = ComputeRope(Llama3(128, 8)).inverse;
  for (const double position : {0.0, 1.0, 1000.0, 8192.0, 60000.0}) {
    double cosine = 0;  // of the two rotations of a vector of ones
    for (size_t i = 0; i < plain.size(); ++i) cosine += std::cos(position * (plain[i] - scaled[i]));
    cosine /= static_cast<double>(plain.size());
    if (position == 0) {
      EXPECT_EQ(cosine, 1.0);
    } else {
      EXPECT_LT(cosine, 1.0);
    }
    if (position >= 8192) {
      EXPECT_LT(cosine, 0.9);
    }
  }
}

TEST(RopeTest, TypeNames) {
  EXPECT_EQ(ParseRopeType("yarn"), RopeType::kYarn);
  EXPECT_FALSE(ParseRopeType("dynamic").has_value());
  EXPECT_FALSE(ParseRopeType("longrope").has_value());
}

}  // namespace
}  // namespace deepinfer::models
