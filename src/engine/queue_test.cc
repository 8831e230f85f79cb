// Who runs when: priorities, deadlines, preemption.
#include <gtest/gtest.h>

#include <thread>

#include "engine/scripted.h"

namespace deepinfer::engine {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

std::unique_ptr<runner::ModelRunner> Open(int64_t max_num_seqs, int64_t max_num_batched_tokens = 64) {
  return OpenScripted(FiveScripts(), SmallOptions(max_num_seqs, max_num_batched_tokens));
}

TEST(QueueTest, PriorityThenArrival) {
  const auto runner = Open(1);
  ASSERT_NE(runner, nullptr);
  Engine engine(runner.get(), Checked());
  const int32_t priorities[] = {0, 5, -1, 5, 0, -1};
  std::vector<Recorder> recorders(6);
  std::vector<int> order;
  for (int i = 0; i < 6; ++i) {
    GenerationRequest request = ScriptRequest(1, 5);
    request.priority = priorities[i];
    recorders[i].on_token = [&order, i](const TokenEvent&) {
      if (order.empty() || order.back() != i) order.push_back(i);
      return true;
    };
    ASSERT_TRUE(engine.Add(request, &recorders[i]));
  }
  RunChecked(&engine);
  EXPECT_EQ(order, std::vector<int>({2, 5, 0, 4, 1, 3}));
}

TEST(QueueTest, TheLeastImportantGivesItsBlocksBack) {
  const auto runner = OpenScripted(FiveScripts(), TightOptions(SmallOptions(3, 64)));
  ASSERT_NE(runner, nullptr);
  Engine engine(runner.get(), Checked());
  std::vector<Recorder> recorders(3);
  std::vector<int> ends;
  for (int i = 0; i < 3; ++i) {
    GenerationRequest request = ScriptRequest(4, 60);  // 151 tokens at the end; 256 are there
    request.priority = -i;                             // the one that comes last matters most
    recorders[i].on_token = [&ends, i](const TokenEvent& event) {
      if (event.id == 2) ends.push_back(i);
      return true;
    };
    ASSERT_TRUE(engine.Add(request, &recorders[i]));
  }
  RunChecked(&engine);
  EXPECT_GT(engine.stats().preemptions, 0);
  EXPECT_EQ(ends, std::vector<int>({2, 1, 0}));
  for (const Recorder& recorder : recorders) {
    EXPECT_EQ(recorder.answer.tokens, Expected(FiveScripts(), Prompt(4, 60), -1));
  }
}

TEST(QueueTest, DeadlinesEndRequestsWhereverTheyAre) {
  const auto runner = Open(1);
  ASSERT_NE(runner, nullptr);
  Engine engine(runner.get(), Checked());
  std::vector<Recorder> recorders(4);
  GenerationRequest request = ScriptRequest(4, 40);
  request.deadline = Clock::now() + hours(1);
  ASSERT_TRUE(engine.Add(request, &recorders[0]));
  request.deadline = Clock::now() - milliseconds(1);
  ASSERT_TRUE(engine.Add(request, &recorders[1]));
  request.deadline = std::nullopt;
  ASSERT_TRUE(engine.Add(request, &recorders[2]));
  // Ends while it decodes: the first one's tokens wait for this one's deadline.
  const Clock::time_point soon = Clock::now() + milliseconds(50);
  request.deadline = soon;
  request.priority = -1;
  request.n = 2;
  recorders[3].on_token = [soon](const TokenEvent&) {
    std::this_thread::sleep_until(soon);
    return true;
  };
  ASSERT_TRUE(engine.Add(request, &recorders[3]));
  RunChecked(&engine);
  EXPECT_EQ(recorders[0].answer.reason, FinishReason::kStop);
  EXPECT_EQ(recorders[2].answer.reason, FinishReason::kStop);
  for (const Answer* answer : {&recorders[1].answer, &recorders[3].Of(0), &recorders[3].Of(1)}) {
    EXPECT_EQ(answer->reason, FinishReason::kDeadline);
    EXPECT_LE(answer->tokens.size(), 1u);
  }
  EXPECT_EQ(recorders[3].Of(0).tokens.size(), 1u);
  EXPECT_STREQ(ToString(FinishReason::kDeadline), "deadline");
}

TEST(QueueTest, TimesAreInOrder) {
  const auto runner = Open(1, 16);
  ASSERT_NE(runner, nullptr);
  Engine engine(runner.get(), Checked());
  std::vector<Recorder> recorders(3);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(engine.Add(ScriptRequest(1, 40), &recorders[i]));
  auto never = engine.Add(ScriptRequest(1, 40), &recorders[2]);
  ASSERT_TRUE(never);
  engine.Cancel(*never);
  RunChecked(&engine);
  for (int i = 0; i < 2; ++i) {
    const ChoiceTimes& times = recorders[i].answer.finish.times;
    EXPECT_LE(times.queued, times.first_scheduled);
    EXPECT_LT(times.first_scheduled, times.first_token);
    EXPECT_LT(times.first_token, times.finished);
    EXPECT_EQ(recorders[i].answer.finish.prompt_tokens, 40);
    EXPECT_EQ(recorders[i].answer.finish.generated_tokens, 3);
    EXPECT_TRUE(recorders[i].answer.finish.last);
  }
  EXPECT_LE(recorders[0].answer.finish.times.first_token, recorders[1].answer.finish.times.first_scheduled);
  EXPECT_EQ(recorders[2].answer.finish.times.first_scheduled, Clock::time_point());
  EXPECT_EQ(recorders[2].answer.finish.times.first_token, Clock::time_point());
}

// Whoever decodes has a token in every chunk of another's long prompt.
TEST(QueueTest, AChunkedPromptDoesNotHoldDecodingUp) {
  const auto runner = Open(4, 16);
  ASSERT_NE(runner, nullptr);
  for (const bool async : {false, true}) {
    Engine engine(runner.get(), Checked(async));
    Recorder decoding, prompt;
    ASSERT_TRUE(engine.Add(ScriptRequest(4, 5), &decoding));
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(engine.Step());
    ASSERT_TRUE(engine.Add(ScriptRequest(3, 200), &prompt));
    size_t before = decoding.answer.tokens.size();
    while (prompt.answer.tokens.empty()) {
      ASSERT_TRUE(engine.Step());
      ASSERT_GT(decoding.answer.tokens.size(), before);
      before = decoding.answer.tokens.size();
    }
    EXPECT_GE(decoding.answer.tokens.size(), 13u) << "200 tokens in chunks of 16";
    RunChecked(&engine);
  }
}

// 60 tokens go in one step while nobody decodes, in pieces of at most 16 while somebody does.
TEST(QueueTest, WhileOthersDecodeChunksAreSmall) {
  for (const bool decoding : {false, true}) {
    const auto runner = Open(2, 64);
    ASSERT_NE(runner, nullptr);
    EngineOptions options = Checked(/*async_stepping=*/false);
    options.chunked_prefill_size = 16;
    Engine engine(runner.get(), options);
    Recorder first, second;
    if (decoding) {
      ASSERT_TRUE(engine.Add(ScriptRequest(4, 3), &first));
      ASSERT_TRUE(engine.Step());
    }
    const int64_t before = engine.stats().prefill_steps;
    ASSERT_TRUE(engine.Add(ScriptRequest(1, 60), &second));
    while (second.answer.tokens.empty()) {
      const int64_t steps = engine.stats().prefill_steps;
      ASSERT_TRUE(engine.Step());
      if (decoding && engine.stats().prefill_steps > steps) {
        EXPECT_LE(engine.stats().last_live_tokens, 16 + 1) << "and the other's next token";
      }
    }
    EXPECT_EQ(engine.stats().prefill_steps - before, decoding ? 4 : 1);
    EXPECT_EQ(first.answer.tokens.size() > 1, decoding);
  }
}

// A cancel is felt within one chunk of the prompt.
TEST(QueueTest, ACancelledPromptIsNotComputedFurther) {
  const auto runner = Open(4, 16);
  ASSERT_NE(runner, nullptr);
  for (const bool async : {false, true}) {
    Engine engine(runner.get(), Checked(async));
    Recorder recorder;
    auto id = engine.Add(ScriptRequest(3, 200), &recorder);
    ASSERT_TRUE(id);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(engine.Step());
    engine.Cancel(*id);
    const int64_t computed = engine.stats().live_tokens;
    RunChecked(&engine);
    EXPECT_EQ(engine.stats().live_tokens, computed) << "no further chunk was launched";
    EXPECT_LE(computed, 4 * 16);
    EXPECT_EQ(recorder.answer.reason, FinishReason::kCancelled);
    EXPECT_EQ(engine.stats().kv_blocks_used, 0);
  }
}

TEST(QueueTest, StatsCountWhatHappened) {
  const auto runner = Open(4, 64);
  ASSERT_NE(runner, nullptr);
  Engine engine(runner.get(), Checked(/*async_stepping=*/false));
  std::vector<Recorder> recorders(3);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(engine.Add(ScriptRequest(1, 20), &recorders[i]));
  ASSERT_TRUE(engine.Step());
  EngineStats stats = engine.stats();
  EXPECT_EQ(stats.running, 3);
  EXPECT_EQ(stats.waiting, 0);
  EXPECT_EQ(stats.kv_blocks_used, 6);
  EXPECT_EQ(stats.last_live_tokens, 60);
  EXPECT_EQ(stats.last_bucket_tokens, 64);
  RunChecked(&engine);
  stats = engine.stats();
  EXPECT_EQ(stats.kv_blocks, runner->num_blocks() - 1);
  EXPECT_EQ(stats.kv_blocks_used, 0);
  EXPECT_EQ(stats.prompt_tokens, 60);
  EXPECT_EQ(stats.generated_tokens, 9);
  EXPECT_EQ(stats.prefill_steps, 1);
  EXPECT_EQ(stats.decode_steps, 2);
  EXPECT_EQ(stats.live_tokens, 60 + 6);
  EXPECT_EQ(stats.bucket_tokens, 64 + 2 * 4) << "three rows take the bucket of four";
  EXPECT_EQ(stats.finished[static_cast<size_t>(FinishReason::kStop)], 3);
  EXPECT_EQ(stats.overlapped_steps, 0);
  EXPECT_EQ(stats.overrun_tokens, 0);
  EXPECT_GT(stats.host_ns, 0);
  EXPECT_EQ(stats.compiles_after_ready, 0);
}

}  // namespace
}  // namespace deepinfer::engine
