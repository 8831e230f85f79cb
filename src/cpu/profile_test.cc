#include <gtest/gtest.h>

#include "cpu/test_util.h"
#include "cpu/work.h"

namespace deepinfer::cpu {
namespace {

// A projection of 2 live rows of 4, and work on its result.
const char kStep[] = R"(module live(%0)
func @step(%0: metadata "live" i32[3], %1: metadata "x" f32[T:4,64], %2: weight "w" f32[32,64]) {
  %3 = linear(%1, %2) {dtype = "f32"} : f32[T:4,32]
  %4 = add(%3, %3) : f32[T:4,32]
  %5 = mul(%4, %4) : f32[T:4,32]
  %6 = add(%5, %4) : f32[T:4,32]
  return "y" %6
}
)";

struct ProfiledStep : Step {
  ProfiledStep() : Step(kStep) {
    ints["live"] = {2, 0, 0};
    floats["x"].assign(4 * 64, 1.0f);
    weights["w"].assign(32 * 64, 0.5f);
    outputs["y"].assign(4 * 32, 0.0f);
  }
};

TEST(Profile, TimesEveryLaunchAndComputesTheStep) {
  ProfiledStep step;
  ASSERT_TRUE(step.Start());
  const auto profile = step.executable->Profile(step.Io());
  ASSERT_TRUE(profile) << profile.error().ToString();
  ASSERT_EQ(profile->size(), 3u);  // the two additions share a row
  EXPECT_EQ((*profile)[0].op, "linear");
  EXPECT_EQ((*profile)[1].op, "add");
  EXPECT_EQ((*profile)[1].launches, 2);
  for (const backend::LaunchProfile& row : *profile) EXPECT_GT(row.seconds, 0) << row.op;
  EXPECT_EQ(step.outputs["y"][0], 64.0f * 64.0f + 64.0f);  // 32 doubled, squared, plus itself
}

TEST(Profile, CountsWhatIsLive) {
  ProfiledStep step;
  ASSERT_TRUE(step.Start());
  const auto profile = step.executable->Profile(step.Io());
  ASSERT_TRUE(profile) << profile.error().ToString();
  EXPECT_EQ((*profile)[0].flops, 2.0 * 2 * 32 * 64);
  EXPECT_EQ((*profile)[0].bytes, 4.0 * (2 * 64 + 32 * 64 + 2 * 32));
  EXPECT_EQ((*profile)[1].flops, 0);
  EXPECT_EQ((*profile)[2].bytes, 4.0 * 3 * 2 * 32);
}

TEST(Profile, WantsACapturedStep) {
  ProfiledStep step;
  ASSERT_TRUE(step.Compile());
  const auto profile = step.executable->Profile(step.Io());
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().code, ErrorCode::kFailedPrecondition);
}

// 2 live tokens of 4 pass 2 of 8 experts each: at most half of them are read.
TEST(Work, OfAMixtureIsThatOfTheExpertsReached) {
  const auto module = ir::Parse(R"(module live(%0)
func @step(%0: metadata "live" i32[3], %1: metadata "x" f32[T:4,32], %2: metadata "logits" f32[T:4,8], %3: weight "gate" f32[128,32], %4: weight "up" f32[128,32], %5: weight "down" f32[256,16]) {
  %6 = moe(%1, %2, %3, %4, %5) {top_k = 2, normalise = 1, activation = "silu"} : f32[T:4,32]
  return "y" %6
}
)");
  ASSERT_TRUE(module) << module.error().ToString();
  const auto step = Flatten(*module, {});
  ASSERT_TRUE(step) << step.error().ToString();
  ir::LiveCounts live;
  live.count = {2, 0, 1};
  const Work work = WorkOf(*step, step->parts[0].nodes[0].node, live, Addresses(step->f.types.size()));
  EXPECT_EQ(work.flops, 2.0 * 2 * 2 * 3 * 32 * 16);
  EXPECT_EQ(work.bytes, 4.0 * (2 * 2 * 32 + 2 * 8 + 4 * 3 * 32 * 16));
}

// One request of 3 tokens after 5 others: its tokens see 6, 7 and 8 positions of 2 heads of 16.
TEST(Work, OfAttentionIsWhatTokensSee) {
  const auto module = ir::Parse(R"(module live(%0)
func @step(%0: metadata "live" i32[3], %1: metadata "q" f32[T:4,4,16], %2: state "k" f32[8,2,4,16], %3: state "v" f32[8,2,4,16], %4: metadata "tables" i32[Q:2,4], %5: metadata "start" i32[3], %6: metadata "positions" i32[T:4]) {
  %7 = paged_attention(%1, %2, %3, %4, %5, %6) {scale = 1.0} : f32[T:4,4,16]
  return "y" %7
}
)");
  ASSERT_TRUE(module) << module.error().ToString();
  const auto step = Flatten(*module, {});
  ASSERT_TRUE(step) << step.error().ToString();
  std::vector<int32_t> start = {0, 3, 3}, positions = {5, 6, 7, 0};
  Addresses addresses(step->f.types.size());
  addresses.Set(5, start.data());
  addresses.Set(6, positions.data());
  ir::LiveCounts live;
  live.count = {3, 0, 1};
  const Work work = WorkOf(*step, step->parts[0].nodes[0].node, live, addresses);
  EXPECT_EQ(work.flops, (6.0 + 7 + 8) * 4 * 16 * 4);
  EXPECT_EQ(work.bytes, 4.0 * (2 * 3 * 4 * 16 + 2 * 8 * 2 * 16));
}

}  // namespace
}  // namespace deepinfer::cpu
