#include "passes/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace deepinfer::passes {
namespace {

std::vector<Lifetime> RandomLifetimes(uint32_t seed, int count) {
  std::mt19937 random(seed);
  std::vector<Lifetime> values;
  for (int i = 0; i < count; ++i) {
    const int first = static_cast<int>(random() % 50);
    const int last = first + static_cast<int>(random() % 8);
    const int64_t bytes = random() % 8 == 0 ? 0 : static_cast<int64_t>(random() % 5000);
    values.push_back({"v" + std::to_string(i), bytes, first, last});
  }
  return values;
}

TEST(MemoryPlanTest, RandomLifetimesArePlacedSoundlyAndTheSameEachTime) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const auto values = RandomLifetimes(seed, 60);
    const MemoryPlan plan = PlanMemory(values);
    const Status checked = CheckPlan(values, plan);
    ASSERT_TRUE(checked.has_value()) << checked.error().ToString();
    EXPECT_EQ(PlanMemory(values).offsets, plan.offsets);
    int64_t sum = 0;
    int64_t peak = 0;
    for (int at = 0; at < 60; ++at) {
      int64_t live = 0;
      for (const Lifetime& v : values) live += v.first <= at && at <= v.last ? v.bytes : 0;
      peak = std::max(peak, live);
    }
    for (const Lifetime& v : values) sum += v.bytes;
    EXPECT_GE(plan.bytes, peak);
    EXPECT_LT(plan.bytes, sum / 2) << "memory is hardly reused";
  }
}

TEST(MemoryPlanTest, ValuesThatFollowEachOtherShareAndThoseThatTouchDoNot) {
  const MemoryPlan chain = PlanMemory({{"a", 100, 0, 1}, {"b", 100, 2, 3}, {"c", 100, 4, 4}});
  EXPECT_EQ(chain.offsets, (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(chain.bytes, 128);
  const MemoryPlan touching = PlanMemory({{"a", 100, 0, 2}, {"b", 100, 2, 3}});
  EXPECT_EQ(touching.offsets, (std::vector<int64_t>{0, 128}));
  EXPECT_EQ(PlanMemory({}).bytes, 0);
}

TEST(MemoryPlanTest, CorruptPlansAreRefusedByName) {
  const std::vector<Lifetime> values = {{"a", 100, 0, 2}, {"b", 100, 1, 3}, {"c", 64, 3, 4}};
  const MemoryPlan good = PlanMemory(values);
  ASSERT_TRUE(CheckPlan(values, good));
  const auto refused = [&](const MemoryPlan& plan, const std::string& text) {
    const Status status = CheckPlan(values, plan);
    ASSERT_FALSE(status.has_value()) << text;
    EXPECT_EQ(status.error().code, ErrorCode::kInternal);
    EXPECT_NE(status.error().message.find(text), std::string::npos) << status.error().message;
  };
  MemoryPlan plan = good;
  plan.offsets[1] = plan.offsets[0];
  refused(plan, "'a' and 'b' are alive together and overlap");
  plan = good;
  plan.offsets[1] = plan.offsets[0] + 64;
  plan.bytes += 64;
  refused(plan, "'a' and 'b' are alive together and overlap");
  plan = good;
  plan.bytes = std::max(plan.offsets[0], plan.offsets[1]) + 99;
  refused(plan, "does not fit the arena");
  plan = good;
  plan.offsets[2] = -64;
  refused(plan, "'c' at -64");
  plan = good;
  plan.offsets[2] = 32;
  refused(plan, "'c' at 32");
  plan = good;
  plan.offsets.pop_back();
  refused(plan, "2 offsets for 3 values");
}

}  // namespace
}  // namespace deepinfer::passes
