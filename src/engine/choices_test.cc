// Several choices of one prompt: each is what the request alone would get as that choice.
#include <gtest/gtest.h>

#include "engine/scripted.h"

namespace deepinfer::engine {
namespace {

constexpr int64_t kBlock = 16;

GenerationRequest Sampled(int64_t length, int32_t n, int64_t max_tokens = 20) {
  GenerationRequest request = Request({}, max_tokens, /*temperature=*/1);
  for (int64_t i = 0; i < length; ++i) request.prompt.push_back(static_cast<int32_t>((5 + 11 * i) % 300));
  request.params.seed = 99;
  request.params.logprobs = 5;
  request.params.ignore_eos = true;
  request.n = n;
  return request;
}

TEST(ChoicesTest, EachIsWhatItWouldBeAlone) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t seqs : {2, 8}) {
      runner::RunnerOptions options = SmallOptions(seqs, 24);
      options.activations = dtype;
      const auto runner = OpenTinyLlama(options);
      ASSERT_NE(runner, nullptr);
      for (const int64_t length : {1, 15, 16, 17, 32, 50}) {
        SCOPED_TRACE(fmt::format("{} slots, {} tokens", seqs, length));
        Engine engine(runner.get(), Checked());
        Recorder recorder;
        ASSERT_TRUE(engine.Add(Sampled(length, 5), &recorder));
        RunChecked(&engine);
        EXPECT_TRUE(recorder.finished());
        EXPECT_EQ(recorder.others.size(), 4u);
        for (uint32_t choice = 0; choice < 5; ++choice) {
          GenerationRequest alone = Sampled(length, 1);
          alone.params.choice = choice;
          ExpectSameAnswer(recorder.Of(choice), RunAll(runner.get(), {alone})[0]);
          EXPECT_EQ(recorder.Of(choice).finish.prompt_tokens, length);
          EXPECT_EQ(recorder.Of(choice).finish.cached_tokens, 0);
        }
        EXPECT_NE(recorder.Of(0).tokens, recorder.Of(1).tokens);
      }
    }
  }
}

// Tokens of all steps: the prompt once, and for each further choice what is not in a full block.
TEST(ChoicesTest, ThePromptIsComputedOnce) {
  const auto runner = OpenTinyLlama(SmallOptions(8, 64));
  ASSERT_NE(runner, nullptr);
  for (const bool caching : {true, false}) {
    for (const int64_t length : {40, 48}) {
      EngineOptions options = Checked(/*async_stepping=*/false);  // no token is dropped
      options.prefix_caching = caching;
      Engine engine(runner.get(), options);
      Recorder first, second;
      ASSERT_TRUE(engine.Add(Sampled(length, 6, 10), &first));
      RunChecked(&engine);
      const int64_t rest = length % kBlock == 0 ? 1 : length % kBlock;
      EXPECT_EQ(engine.stats().live_tokens, length + 5 * rest + 6 * 9);
      EXPECT_EQ(engine.stats().prefix_hits, 0) << "among themselves is no hit";
      // Another request finds the prompt if it may.
      ASSERT_TRUE(engine.Add(Sampled(length, 2, 10), &second));
      RunChecked(&engine);
      EXPECT_EQ(second.answer.finish.cached_tokens, caching ? length - rest : 0);
      ExpectSameAnswer(second.Of(1), first.Of(1));
    }
  }
}

TEST(ChoicesTest, EachEndsForItself) {
  const auto runner = OpenTinyLlama(SmallOptions(8, 64));
  ASSERT_NE(runner, nullptr);
  Engine engine(runner.get(), Checked());
  Recorder recorder;
  recorder.on_token = [&](const TokenEvent& event) {
    return recorder.Of(event.choice).tokens.size() < 3u + 2 * event.choice;  // choice 0 first
  };
  ASSERT_TRUE(engine.Add(Sampled(20, 4, 9), &recorder));
  RunChecked(&engine);
  for (uint32_t choice = 0; choice < 4; ++choice) {
    const Answer& answer = recorder.Of(choice);
    EXPECT_EQ(answer.tokens.size(), 3u + 2 * choice);
    EXPECT_EQ(answer.reason, FinishReason::kStop);
    EXPECT_EQ(answer.finish.last, choice == 3);
  }
}

TEST(ChoicesTest, ACancelEndsThemAll) {
  const auto runner = OpenTinyLlama(SmallOptions(2, 8));
  ASSERT_NE(runner, nullptr);
  for (const int steps : {0, 2, 7, 12}) {  // in the queue, in the prompt, and later
    Engine engine(runner.get(), Checked());
    Recorder recorder, other;
    auto id = engine.Add(Sampled(30, 3), &recorder);
    ASSERT_TRUE(id);
    ASSERT_TRUE(engine.Add(Sampled(9, 1), &other));
    for (int i = 0; i < steps; ++i) ASSERT_TRUE(engine.Step());
    engine.Cancel(*id);
    ASSERT_TRUE(engine.Step());
    EXPECT_TRUE(recorder.finished());
    for (uint32_t choice = 0; choice < 3; ++choice) EXPECT_EQ(recorder.Of(choice).reason, FinishReason::kCancelled);
    RunChecked(&engine);
    EXPECT_EQ(other.answer.reason, FinishReason::kLength);
    EXPECT_EQ(engine.stats().finished[static_cast<size_t>(FinishReason::kCancelled)], 3);
  }
}

TEST(ChoicesTest, PromptLogitsComeOnce) {
  const auto runner = OpenTinyLlama(SmallOptions(8, 64));
  ASSERT_NE(runner, nullptr);
  GenerationRequest request = Sampled(37, 3, 5);
  request.prompt_logits = true;
  Engine engine(runner.get(), Checked());
  Recorder recorder;
  ASSERT_TRUE(engine.Add(request, &recorder));
  RunChecked(&engine);
  EXPECT_EQ(recorder.answer.prompt_logits.size(), 37u * 320);
  for (uint32_t choice = 0; choice < 3; ++choice) EXPECT_EQ(recorder.Of(choice).tokens.size(), 5u);
}

// A NaN in the prompt's last row: every choice sees it.
TEST(ChoicesTest, ANanInThePromptEndsThemAll) {
  nlohmann::json json = FiveScripts();
  json["nan_at"] = {{0, 0}};
  const auto runner = OpenScripted(json, SmallOptions(4, 32));
  ASSERT_NE(runner, nullptr);
  Engine engine(runner.get(), Checked());
  GenerationRequest request = ScriptRequest(0, 40);
  request.n = 3;
  Recorder recorder;
  ASSERT_TRUE(engine.Add(request, &recorder));
  RunChecked(&engine);
  for (uint32_t choice = 0; choice < 3; ++choice) EXPECT_EQ(recorder.Of(choice).reason, FinishReason::kError);
  EXPECT_EQ(engine.stats().nan_rows, 3);
}

}  // namespace
}  // namespace deepinfer::engine
