#include "cpu/kernels/moe/moe.h"

#include "cpu/kernels/test_util.h"

namespace deepinfer {
namespace {

TEST(RouteTokens, TheMostProbableDescendingTiesToTheLowest) {
  const std::vector<float> logits = {0,   2,   1,    2,    -1,  //
                                     5,   5,   5,    5,    5,   //
                                     -80, -90, -100, -200, -1000};
  std::vector<int32_t> ids(9);
  std::vector<float> weights(9), scratch(5);
  RouteTokens({logits.data(), 5, 3, /*normalise=*/true, ids.data(), weights.data()}, 0, 3, scratch.data());
  EXPECT_EQ(ids, (std::vector<int32_t>{1, 3, 2, 0, 1, 2, 0, 1, 2}));
  for (size_t token = 0; token < 3; ++token) {
    EXPECT_NEAR(weights[3 * token] + weights[3 * token + 1] + weights[3 * token + 2], 1, 1e-6);
  }
  const double sum = 2 * std::exp(2.0) + std::exp(1.0);
  EXPECT_NEAR(weights[0], std::exp(2.0) / sum, 1e-6);
  EXPECT_NEAR(weights[2], std::exp(1.0) / sum, 1e-6);
  EXPECT_FLOAT_EQ(weights[4], 1.0f / 3);
  RouteTokens({logits.data(), 5, 3, /*normalise=*/false, ids.data(), weights.data()}, 1, 2, scratch.data());
  EXPECT_FLOAT_EQ(weights[4], 0.2f);
}

TEST(RouteTokens, NanStaysInItsToken) {
  const std::vector<float> logits = {1, NAN, 2, NAN, 1, 2, INFINITY, 0, 0, 0, 1, 2};
  std::vector<int32_t> ids(8);
  std::vector<float> weights(8), scratch(3);
  RouteTokens({logits.data(), 3, 2, true, ids.data(), weights.data()}, 0, 4, scratch.data());
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(std::isnan(weights[i]), i < 6) << i;
    EXPECT_TRUE(ids[i] >= 0 && ids[i] < 3);
  }
}

TEST(SortByExpert, PairsKeepTheirOrderWithinAnExpert) {
  const std::vector<int32_t> ids = {2, 0, 2, 3, 0, 2};
  std::vector<int32_t> place(6), first(6);
  SortByExpert(ids.data(), 6, 5, place.data(), first.data());
  EXPECT_EQ(first, (std::vector<int32_t>{0, 2, 2, 5, 6, 6}));
  EXPECT_EQ(place, (std::vector<int32_t>{2, 0, 3, 5, 1, 4}));
}

TEST(CombineExperts, WeightsAndRoundsOnce) {
  const int64_t width = 70;
  const std::vector<float> y = RandomFloats(3 * width, 1);
  const std::vector<int32_t> place = {2, 0, 1, 2};
  const std::vector<float> weights = {0.75f, 0.25f, 0.5f, 0.125f};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Array out(dtype, 2 * width), expected(dtype, 2 * width);
    CombineExperts({y.data(), place.data(), weights.data(), 2, width, out.data(), dtype}, 0, 2);
    for (int64_t i = 0; i < 2 * width; ++i) {
      const int64_t token = i / width, column = i % width;
      float sum = 0;
      for (int64_t k = 0; k < 2; ++k) sum += weights[2 * token + k] * y[place[2 * token + k] * width + column];
      expected.Set(i, sum);
    }
    EXPECT_EQ(out.bytes(), expected.bytes());
  }
}

}  // namespace
}  // namespace deepinfer
