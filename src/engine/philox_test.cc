#include "engine/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace deepinfer::engine {
namespace {

using Words = std::array<uint32_t, 4>;

// The known answers that the paper's authors publish for philox4x32 with 10 rounds.
TEST(PhiloxTest, KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}), Words({0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            Words({0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            Words({0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, UniformUsesEveryArgumentAndStaysBelowOne) {
  EXPECT_EQ(Uniform(0, 0, 0), static_cast<float>(0x6627e8d5 >> 8) * 0x1p-24f);
  std::set<float> seen;
  double sum = 0;
  int64_t count = 0;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, uint64_t{1} << 63}) {
    for (const uint32_t choice : {0u, 1u, 1u << 31}) {
      for (uint64_t position = 0; position < 500; ++position) {
        for (const uint64_t high : {uint64_t{0}, uint64_t{1} << 32}) {
          const float u = Uniform(seed, choice, position + high);
          ASSERT_GE(u, 0.0f);
          ASSERT_LT(u, 1.0f);
          ASSERT_EQ(u * 0x1p24f, std::floor(u * 0x1p24f));
          seen.insert(u);
          sum += u;
          ++count;
        }
      }
    }
  }
  EXPECT_GT(static_cast<int64_t>(seen.size()), count - 40) << "draws repeat";
  EXPECT_NEAR(sum / count, 0.5, 0.02);
}

}  // namespace
}  // namespace deepinfer::engine
