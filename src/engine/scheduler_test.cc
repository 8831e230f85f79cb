#include "engine/scheduler.h"

#include <gtest/gtest.h>

namespace deepinfer::engine {
namespace {

using I = std::vector<int32_t>;
using models::Phase;

constexpr int64_t kVocab = 100;

// A scheduler whose steps "run" as soon as they are planned: every sampled token is 7.
class SchedulerTest : public ::testing::Test {
 protected:
  void Start(int64_t max_prefill_requests, int64_t num_blocks = 33) {
    scheduler_ = std::make_unique<Scheduler>(
        SchedulerLimits{.block_size = 4, .max_seqs = 3, .max_tokens = 32, .max_prefill_requests = max_prefill_requests},
        num_blocks);
  }

  Sequence* Add(int32_t token, int64_t prompt, bool prompt_logits = false) {
    auto owner = std::make_unique<ActiveRequest>();
    owner->request.prompt_logits = prompt_logits;
    owner->id = static_cast<int64_t>(requests_.size()) + 1;
    owner->request.prompt.assign(static_cast<size_t>(prompt), token);
    auto sequence = std::make_unique<Sequence>(owner.get(), 0);
    sequence->max_total = 32;
    sequence->controls = *RowControls::Create(owner->request, kVocab, sequence->max_total);
    scheduler_->Add(sequence.get());
    owner->choices.push_back(std::move(sequence));
    requests_.push_back(std::move(owner));
    return requests_.back()->choices[0].get();
  }

  void Step(int64_t max_prompt_tokens) {
    ASSERT_TRUE(scheduler_->Next(Preemption::kAllowed, max_prompt_tokens, &plan_, &scheduled_));
    const Status plan = scheduler_->CheckPlan(plan_, scheduled_);
    ASSERT_TRUE(plan) << plan.error().ToString();
    for (const ScheduledSequence& entry : scheduled_) {
      scheduler_->Computed(entry);
      if (!entry.samples) continue;
      entry.sequence->tokens.push_back(7);
      --entry.sequence->pending;
    }
    const Status state = scheduler_->CheckInvariants();
    ASSERT_TRUE(state) << state.error().ToString();
  }

  std::unique_ptr<Scheduler> scheduler_;
  std::vector<std::unique_ptr<ActiveRequest>> requests_;
  runner::StepPlan plan_;
  std::vector<ScheduledSequence> scheduled_;
};

TEST_F(SchedulerTest, DecodingSequencesArePartOfAStepWithPrompts) {
  Start(/*max_prefill_requests=*/3);
  const Sequence* first = Add(1, 3);
  Step(2);
  EXPECT_EQ(plan_.tokens, I({1, 1, 1})) << "nobody decodes: the limit does not count";
  const Sequence* second = Add(2, 4);
  Step(3);
  EXPECT_EQ(plan_.phase, Phase::kPrefill);
  EXPECT_EQ(plan_.tokens, I({-1, 2, 2, 2}));
  EXPECT_EQ(plan_.token_slots, I({first->slot, -1, -1, -1}));
  EXPECT_EQ(plan_.positions, I({3, 0, 1, 2}));
  EXPECT_EQ(plan_.query_start, I({0, 1, 4}));
  ASSERT_EQ(plan_.rows.size(), 1u) << "the prompt is not at its end";
  EXPECT_EQ(plan_.rows[0].token, 0);
  EXPECT_EQ(plan_.rows[0].commit_slot, first->slot);
  Step(3);
  EXPECT_EQ(plan_.tokens, I({-1, 2}));
  ASSERT_EQ(plan_.rows.size(), 2u);
  EXPECT_EQ(plan_.rows[1].token, 1);
  EXPECT_EQ(plan_.rows[1].commit_slot, second->slot);
  Step(3);
  EXPECT_EQ(plan_.phase, Phase::kDecode);
  EXPECT_EQ(plan_.tokens, I({-1, -1}));
  EXPECT_EQ(plan_.token_slots, I({first->slot, second->slot}));
}

TEST_F(SchedulerTest, StepsTakeTurnsWhereAPrefillStepHasOneRequest) {
  Start(/*max_prefill_requests=*/1);
  Add(1, 3);
  Step(3);
  Add(2, 6);
  std::vector<std::pair<Phase, I>> steps;
  for (int i = 0; i < 4; ++i) {
    Step(3);
    steps.emplace_back(plan_.phase, plan_.tokens);
  }
  const std::vector<std::pair<Phase, I>> expected = {
      {Phase::kDecode, {-1}}, {Phase::kPrefill, {2, 2, 2}}, {Phase::kDecode, {-1}}, {Phase::kPrefill, {2, 2, 2}}};
  EXPECT_EQ(steps, expected);
  Step(3);
  EXPECT_EQ(plan_.tokens, I({-1, -1}));
}

// Beside those who decode there would be few rows for it.
TEST_F(SchedulerTest, StepsTakeTurnsWhereAPromptNeedsARowForEveryToken) {
  Start(/*max_prefill_requests=*/3);
  Add(1, 3);
  Step(32);
  Add(2, 6, /*prompt_logits=*/true);
  Step(32);
  EXPECT_EQ(plan_.tokens, I({-1}));
  Step(32);
  EXPECT_EQ(plan_.tokens, I({2, 2, 2})) << "as many as there are rows";
  EXPECT_EQ(plan_.rows.size(), 3u);
}

// Blocks can be taken from others once the step on its way has been read. Until then the prompt, which holds blocks for
// more than its next chunk, must not go on either: it would keep a step on its way until it has used them up.
TEST_F(SchedulerTest, WhereOneWhoDecodesFindsNoBlockNothingIsPlannedAhead) {
  Start(/*max_prefill_requests=*/3, /*num_blocks=*/1 + 7);
  const Sequence* first = Add(1, 3);
  Step(32);
  Add(2, 24);
  Step(4);
  EXPECT_EQ(plan_.tokens.size(), 5u);
  ASSERT_EQ(first->block_table.size(), 1u) << "full now";
  EXPECT_FALSE(scheduler_->Next(Preemption::kForbidden, 4, &plan_, &scheduled_));
  Step(4);
  EXPECT_EQ(plan_.tokens, I({-1})) << "the prompt has given its blocks back";
  EXPECT_EQ(scheduler_->preemptions(), 1);
}

TEST_F(SchedulerTest, OnePromptAfterTheOtherSharesTheLimit) {
  Start(/*max_prefill_requests=*/3);
  Add(1, 1);
  Step(8);
  Add(2, 3);
  Add(3, 9);
  Step(8);
  EXPECT_EQ(plan_.tokens, I({-1, 2, 2, 2, 3, 3, 3, 3, 3}));
  EXPECT_EQ(plan_.rows.size(), 2u) << "the first one's next token and the second one's first";
  Step(8);
  EXPECT_EQ(plan_.tokens, I({-1, -1, 3, 3, 3, 3}));
}

}  // namespace
}  // namespace deepinfer::engine
