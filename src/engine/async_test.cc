// Steps launched ahead of their tokens: the same bits as one after the other, whatever ends in between.
#include <gtest/gtest.h>

#include "engine/scripted.h"

namespace deepinfer::engine {
namespace {

// What many observers see, in the order they see it.
class Journal : public RequestObserver {
 public:
  bool OnToken(const TokenEvent& event) override {
    Note(event.request, event.choice).tokens.push_back(event.id);
    return true;
  }
  void OnFinish(const FinishEvent& event) override { Note(event.request, event.choice).reason = event.reason; }
  Answer& Note(int64_t request, uint32_t choice) { return answers[{request, choice}]; }
  std::map<std::pair<int64_t, uint32_t>, Answer> answers;
};

GenerationRequest Sampled(int32_t i) {
  GenerationRequest request = Request({}, 5 + i % 23, i % 3 == 0 ? 0 : 0.9);
  for (int32_t k = 0; k < 1 + (i * 29) % 70; ++k) request.prompt.push_back((i * 31 + k * 7) % 300);
  request.params.seed = static_cast<uint64_t>(i);
  request.params.logprobs = i % 4 == 0 ? 20 : -1;
  request.params.ignore_eos = true;
  request.stop_ids = {};
  request.n = 1 + i % 3;
  return request;
}

TEST(AsyncTest, TheSameBitsAsOneStepAfterTheOther) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    runner::RunnerOptions options = SmallOptions(6, 32);
    options.activations = dtype;
    const auto runner = OpenTinyLlama(options);
    ASSERT_NE(runner, nullptr);
    std::vector<std::vector<Recorder>> runs;
    for (const bool async : {false, true}) {
      Engine engine(runner.get(), Checked(async));
      runs.emplace_back(20);
      for (int32_t i = 0; i < 20; ++i) ASSERT_TRUE(engine.Add(Sampled(i), &runs.back()[i]));
      RunChecked(&engine);
      const EngineStats stats = engine.stats();
      EXPECT_EQ(stats.overlapped_steps > stats.decode_steps / 2, async) << stats.overlapped_steps;
    }
    for (int i = 0; i < 20; ++i) {
      SCOPED_TRACE(i);
      for (uint32_t choice = 0; choice < static_cast<uint32_t>(1 + i % 3); ++choice) {
        ExpectSameAnswer(runs[1][i].Of(choice), runs[0][i].Of(choice));
      }
    }
  }
}

TEST(AsyncTest, ALengthLimitOverrunsNothingAStopDoes) {
  const auto runner = OpenScripted(FiveScripts(), SmallOptions(4, 64));
  ASSERT_NE(runner, nullptr);
  Engine engine(runner.get(), Checked());
  Recorder limited, stopped;
  ASSERT_TRUE(engine.Add(ScriptRequest(4, 20, 17), &limited));
  RunChecked(&engine);
  EXPECT_EQ(limited.answer.tokens.size(), 17u);
  EXPECT_EQ(engine.stats().overrun_tokens, 0);
  EXPECT_EQ(engine.stats().overlapped_steps, 16) << "every step but the first";
  ASSERT_TRUE(engine.Add(ScriptRequest(0, 20), &stopped));
  RunChecked(&engine);
  EXPECT_EQ(stopped.answer.tokens, Expected(FiveScripts(), Prompt(0, 20), -1));
  EXPECT_EQ(engine.stats().overrun_tokens, 1);
}

// Logits are not copied: they are read before the next step runs.
TEST(AsyncTest, PromptLogitsAreThoseOfTheirStep) {
  const auto runner = OpenTinyLlama(SmallOptions(4, 16));
  ASSERT_NE(runner, nullptr);
  std::vector<GenerationRequest> requests;
  for (int32_t i = 0; i < 6; ++i) {
    requests.push_back(Sampled(4 * i + 1));
    requests.back().prompt_logits = i % 2 == 0;
  }
  const std::vector<Answer> right = RunAll(runner.get(), requests, Checked(false));
  const std::vector<Answer> answers = RunAll(runner.get(), requests, Checked(true));
  for (size_t i = 0; i < requests.size(); ++i) {
    ExpectSameAnswer(answers[i], right[i]);
    EXPECT_EQ(answers[i].prompt_logits, right[i].prompt_logits) << i;
    EXPECT_EQ(answers[i].prompt_logits.empty(), i % 2 != 0);
  }
}

TEST(AsyncTest, ACancelIsFeltInTheSameStep) {
  const auto runner = OpenScripted(FiveScripts(), SmallOptions(4, 64));
  ASSERT_NE(runner, nullptr);
  Engine engine(runner.get(), Checked());
  Recorder cancelled, other;
  auto id = engine.Add(ScriptRequest(4, 20), &cancelled);
  ASSERT_TRUE(id);
  ASSERT_TRUE(engine.Add(ScriptRequest(4, 21), &other));
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(engine.Step());
  const size_t tokens = cancelled.answer.tokens.size();
  engine.Cancel(*id);
  EXPECT_FALSE(cancelled.finished());
  ASSERT_TRUE(engine.Step());
  EXPECT_TRUE(cancelled.finished());
  EXPECT_EQ(cancelled.answer.tokens.size(), tokens);
  RunChecked(&engine);
  EXPECT_EQ(other.answer.tokens, Expected(FiveScripts(), Prompt(4, 21), -1));
}

TEST(AsyncTest, AnEngineMayGoWithStepsOnTheirWay) {
  const auto runner = OpenScripted(FiveScripts(), SmallOptions(4, 64));
  ASSERT_NE(runner, nullptr);
  for (int steps = 0; steps < 6; ++steps) {
    Journal journal;
    Engine engine(runner.get(), Checked());
    for (int32_t i = 0; i < 6; ++i) ASSERT_TRUE(engine.Add(ScriptRequest(4, 10 + i), &journal));
    for (int i = 0; i < steps; ++i) ASSERT_TRUE(engine.Step());
  }
  // The runner is whole.
  EXPECT_EQ(RunAll(runner.get(), {ScriptRequest(0, 20)})[0].tokens, Expected(FiveScripts(), Prompt(0, 20), -1));
}

TEST(AsyncTest, ANanEndsARowThatIsAlreadyInTheNextStep) {
  nlohmann::json json = FiveScripts();
  json["nan_at"] = {{4, 5}};
  const auto runner = OpenScripted(json, SmallOptions(6, 32));
  ASSERT_NE(runner, nullptr);
  Engine engine(runner.get(), Checked());
  Recorder bad, good;
  ASSERT_TRUE(engine.Add(ScriptRequest(4, 9), &bad));
  ASSERT_TRUE(engine.Add(ScriptRequest(3, 9), &good));
  RunChecked(&engine);
  EXPECT_EQ(bad.answer.reason, FinishReason::kError);
  EXPECT_EQ(bad.answer.tokens.size(), 5u);
  EXPECT_EQ(engine.stats().nan_rows, 1) << "the row behind it is dropped unread";
  EXPECT_EQ(engine.stats().overrun_tokens, 2);  // behind the NaN, and behind the other's end
  EXPECT_EQ(good.answer.tokens, Expected(json, Prompt(3, 9), -1));
}

}  // namespace
}  // namespace deepinfer::engine
