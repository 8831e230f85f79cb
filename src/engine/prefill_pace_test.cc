#include "engine/prefill_pace.h"

#include <gtest/gtest.h>

#include <functional>

namespace deepinfer::engine {
namespace {

constexpr PrefillLimits kLimits{.budget_ms = 40, .smallest = 16, .largest = 512};

double Ask(PrefillPace pace) {
  return static_cast<double>(pace.Next());
}

// Steps of 8 and 72 tokens in turns.
void ObserveInTurns(int steps, const std::function<double(int64_t)>& ms, PrefillPace* pace) {
  for (int step = 0; step < steps; ++step) {
    const int64_t tokens = step % 2 == 0 ? 8 : 72;
    pace->Observe(tokens, ms(tokens));
  }
}

TEST(PrefillPaceTest, FindsWhatOneTokenCostsBesideFixedCosts) {
  for (const double ms_per_token : {0.1, 0.5, 1.25}) {
    PrefillPace pace(kLimits);
    ObserveInTurns(20, [&](int64_t tokens) { return 30 + ms_per_token * static_cast<double>(tokens); }, &pace);
    EXPECT_NEAR(Ask(pace), 40 / ms_per_token, 1) << ms_per_token;
  }
}

TEST(PrefillPaceTest, StaysWithinItsLimits) {
  PrefillPace fast(kLimits), slow(kLimits);
  ObserveInTurns(20, [](int64_t tokens) { return 0.01 * static_cast<double>(tokens); }, &fast);
  ObserveInTurns(20, [](int64_t tokens) { return 9 * static_cast<double>(tokens); }, &slow);
  EXPECT_EQ(Ask(fast), 512);
  EXPECT_EQ(Ask(slow), 16);
}

TEST(PrefillPaceTest, IsSmallWhileNothingIsKnown) {
  EXPECT_EQ(Ask(PrefillPace(kLimits)), 16);
  EXPECT_EQ(Ask(PrefillPace({.budget_ms = 40, .smallest = 128, .largest = 512})), 128);
}

TEST(PrefillPaceTest, WithoutABudgetThereIsOneSize) {
  PrefillPace pace({.budget_ms = 0, .smallest = 16, .largest = 512});
  for (int step = 0; step < 3 * PrefillPace::kStepsPerProbe; ++step) EXPECT_EQ(pace.Next(), 512);
}

// While nobody prefills, steps of about as many tokens keep what was known: a millisecond between them is no token's.
TEST(PrefillPaceTest, EqualStepsTeachNothing) {
  PrefillPace pace(kLimits);
  ObserveInTurns(100, [](int64_t tokens) { return 6 + 0.5 * static_cast<double>(tokens); }, &pace);
  ASSERT_NEAR(Ask(pace), 80, 1);
  for (int step = 0; step < 500; ++step) pace.Observe(8 + step % 2, step % 2 == 0 ? 9 : 11);
  EXPECT_GE(Ask(pace), 50) << "2 ms a token would be 20";
}

// A long prompt takes step after step of one size. Each costs more than the one before it.
TEST(PrefillPaceTest, FollowsAMachineThatGetsSlower) {
  PrefillPace pace(kLimits);
  for (int step = 0; step < 1000; ++step) {
    const double ms_per_token = step < 500 ? 0.2 : 1.0;
    const int64_t tokens = 8 + pace.Next();
    pace.Observe(tokens, 10 + ms_per_token * static_cast<double>(tokens));
    if (step == 499) ASSERT_NEAR(Ask(pace), 200, 2);
  }
  EXPECT_NEAR(Ask(pace), 40, 2);
}

}  // namespace
}  // namespace deepinfer::engine
