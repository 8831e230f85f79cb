// Prefix caching: what is found again is not computed again, and changes no bit.
#include <gtest/gtest.h>

#include "engine/scripted.h"

namespace deepinfer::engine {
namespace {

constexpr int64_t kBlock = 16;

Ids Range(int32_t first, int64_t count) {
  Ids ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>((first + 7 * i) % 300));
  return ids;
}

GenerationRequest Plain(Ids prompt, int64_t max_tokens) {
  GenerationRequest request = Request(std::move(prompt), max_tokens);
  request.params.logprobs = 20;
  request.params.ignore_eos = true;
  return request;
}

Answer RunOn(Engine* engine, const GenerationRequest& request) {
  Recorder recorder;
  auto id = engine->Add(request, &recorder);
  EXPECT_TRUE(id) << id.error().ToString();
  RunChecked(engine);
  return std::move(recorder.answer);
}

class PrefixTest : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    runner::RunnerOptions options = SmallOptions(4, 24);  // prompts come in chunks
    options.activations = GetParam();
    runner_ = OpenTinyLlama(options);
    ASSERT_NE(runner_, nullptr);
  }
  Answer Cold(const GenerationRequest& request) { return RunAll(runner_.get(), {request})[0]; }

  std::unique_ptr<runner::ModelRunner> runner_;
};

TEST_P(PrefixTest, AHitEqualsTheColdRunBitForBit) {
  const int64_t lengths[] = {1, 15, 16, 17, 31, 32, 33, 48, 100};
  std::vector<GenerationRequest> requests;
  std::vector<Answer> cold;
  for (const int64_t length : lengths) {
    requests.push_back(Plain(Range(static_cast<int32_t>(length), length), 20));
    cold.push_back(Cold(requests.back()));
  }
  Engine engine(runner_.get(), Checked());
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE(fmt::format("round {}, {} tokens", round, lengths[i]));
      const EngineStats before = engine.stats();
      const Answer answer = RunOn(&engine, requests[i]);
      ExpectSameAnswer(answer, cold[i]);
      const int64_t found = round == 0 ? 0 : std::min(lengths[i] / kBlock * kBlock, lengths[i] - 1);
      EXPECT_EQ(answer.finish.cached_tokens, found);
      EXPECT_EQ(engine.stats().prefix_queries - before.prefix_queries, lengths[i]);
      EXPECT_EQ(engine.stats().prefix_hits - before.prefix_hits, found);
    }
  }
}

TEST_P(PrefixTest, TheNextTurnFindsTheAnswerToo) {
  std::vector<GenerationRequest> turns;
  std::vector<Answer> cold;
  Ids conversation = Range(3, 21);
  for (int32_t turn = 0; turn < 4; ++turn) {
    turns.push_back(Plain(conversation, 27));
    cold.push_back(Cold(turns.back()));
    conversation.insert(conversation.end(), cold.back().tokens.begin(), cold.back().tokens.end());
    for (int32_t i = 0; i < 5; ++i) conversation.push_back(40 + turn * 5 + i);
  }
  Engine engine(runner_.get(), Checked());
  for (size_t turn = 0; turn < turns.size(); ++turn) {
    const Answer answer = RunOn(&engine, turns[turn]);
    ExpectSameAnswer(answer, cold[turn]);
    // The last token of the earlier answer was never an input.
    const int64_t known = turn == 0 ? 0 : static_cast<int64_t>(turns[turn].prompt.size()) - 5 - 1;
    EXPECT_EQ(answer.finish.cached_tokens, known / kBlock * kBlock);
  }
}

// Parts of a known prompt, with holes between them: what comes after a hole is another context.
TEST_P(PrefixTest, PartsBehindAHoleAreComputed) {
  const Ids whole = Range(2, 112);
  GenerationRequest holes = Plain({}, 10);
  for (const auto& [first, last] : {std::pair(0, 32), std::pair(48, 64), std::pair(64, 80), std::pair(96, 112)}) {
    holes.prompt.insert(holes.prompt.end(), whole.begin() + first, whole.begin() + last);
  }
  const Answer cold = Cold(holes);
  Engine engine(runner_.get(), Checked());
  RunOn(&engine, Plain(whole, 10));
  const Answer warm = RunOn(&engine, holes);
  ExpectSameAnswer(warm, cold);
  EXPECT_EQ(warm.finish.cached_tokens, 32);
}

TEST_P(PrefixTest, OthersRunBesideAHit) {
  const Ids common = Range(9, 64);
  std::vector<GenerationRequest> requests;
  for (int32_t i = 0; i < 10; ++i) {
    Ids prompt(common.begin(), common.begin() + 8 * (i % 9));
    for (int32_t k = 0; k <= 3 * i; ++k) prompt.push_back(100 + i + k);
    requests.push_back(Plain(std::move(prompt), 12));
  }
  Engine engine(runner_.get(), Checked());
  RunOn(&engine, Plain(common, 1));
  std::vector<Recorder> recorders(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) ASSERT_TRUE(engine.Add(requests[i], &recorders[i]));
  RunChecked(&engine);
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    ExpectSameAnswer(recorders[i].answer, Cold(requests[i]));
    EXPECT_GE(recorders[i].answer.finish.cached_tokens, 8 * static_cast<int64_t>(i % 9) / kBlock * kBlock);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PrefixTest, ::testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& info) { return std::string(ToString(info.param)); });

class ScriptedPrefixTest : public ::testing::Test {
 protected:
  void Open(runner::RunnerOptions options = SmallOptions(4, 64), nlohmann::json script = FiveScripts()) {
    runner_ = OpenScripted(script, std::move(options));
    ASSERT_NE(runner_, nullptr);
  }
  int64_t Cached(Engine* engine, GenerationRequest request) { return RunOn(engine, request).finish.cached_tokens; }

  std::unique_ptr<runner::ModelRunner> runner_;
};

TEST_F(ScriptedPrefixTest, SaltsKeepRequestsApart) {
  Open();
  Engine engine(runner_.get(), Checked());
  GenerationRequest request = ScriptRequest(3, 40, 4);
  EXPECT_EQ(Cached(&engine, request), 0);
  EXPECT_EQ(Cached(&engine, request), 32);
  request.cache_salt = "tenant";
  EXPECT_EQ(Cached(&engine, request), 0);
  EXPECT_EQ(Cached(&engine, request), 32);
  request.cache_salt = "tenant2";
  EXPECT_EQ(Cached(&engine, request), 0);
  request.cache_salt = "";
  EXPECT_EQ(Cached(&engine, request), 32);
}

TEST_F(ScriptedPrefixTest, TurnedOffNothingIsFound) {
  Open();
  EngineOptions options = Checked();
  options.prefix_caching = false;
  Engine engine(runner_.get(), options);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Cached(&engine, ScriptRequest(3, 40, 4)), 0);
  EXPECT_EQ(engine.stats().prefix_hits, 0);
  EXPECT_EQ(engine.stats().kv_blocks_cached, 0);
  EXPECT_EQ(engine.stats().kv_blocks_used, 0);
}

TEST_F(ScriptedPrefixTest, OnlyEqualPrefixesAreFound) {
  Open();
  Engine engine(runner_.get(), Checked());
  EXPECT_EQ(Cached(&engine, ScriptRequest(3, 80, 2)), 0);
  for (const int64_t changed : {0, 15, 16, 40, 79}) {
    GenerationRequest request = ScriptRequest(3, 80, 2);
    request.prompt[changed] += 5;  // the same script, if it is the first
    EXPECT_EQ(Cached(&engine, request), changed / kBlock * kBlock) << changed;
  }
  EXPECT_EQ(Cached(&engine, ScriptRequest(3, 120, 2)), 80);
}

// Every position's logits are wanted, so every position is computed.
TEST_F(ScriptedPrefixTest, PromptLogitsAreComputed) {
  Open();
  Engine engine(runner_.get(), Checked());
  GenerationRequest request = ScriptRequest(3, 50, 2);
  request.prompt_logits = true;
  const Answer first = RunOn(&engine, request);
  const Answer second = RunOn(&engine, request);
  EXPECT_EQ(second.finish.cached_tokens, 0);
  EXPECT_EQ(second.prompt_logits.size(), request.prompt.size() * 320);
  EXPECT_EQ(second.prompt_logits, first.prompt_logits);
  EXPECT_EQ(Cached(&engine, ScriptRequest(3, 50, 2)), 48) << "but others find them";
}

TEST_F(ScriptedPrefixTest, NothingOfARequestWithANanIsFound) {
  nlohmann::json json = FiveScripts();
  json["nan_at"] = {{4, 5}};
  Open(SmallOptions(4, 64), json);
  Engine engine(runner_.get(), Checked());
  for (int i = 0; i < 2; ++i) {
    const Answer answer = RunOn(&engine, ScriptRequest(4, 40));
    EXPECT_EQ(answer.reason, FinishReason::kError);
    EXPECT_EQ(answer.finish.cached_tokens, 0);
  }
  EXPECT_EQ(engine.stats().kv_blocks_cached, 0);
}

TEST_F(ScriptedPrefixTest, BlocksAreForgottenWhenTheyAreNeeded) {
  Open(TightOptions(SmallOptions(4, 64)));  // 16 blocks
  Engine engine(runner_.get(), Checked());
  std::vector<GenerationRequest> requests;
  for (int32_t i = 0; i < 4; ++i) {
    requests.push_back(ScriptRequest(1, 65, 2));  // 4 blocks to keep, 5 to run
    requests.back().cache_salt = std::to_string(i);
  }
  for (const GenerationRequest& request : requests) EXPECT_EQ(Cached(&engine, request), 0);
  EXPECT_EQ(engine.stats().kv_blocks_cached, 15);
  EXPECT_EQ(Cached(&engine, requests[3]), 64);
  EXPECT_EQ(Cached(&engine, requests[2]), 64);
  EXPECT_EQ(Cached(&engine, requests[0]), 48) << "its last block was the oldest of all";
  for (int round = 0; round < 3; ++round) {
    for (GenerationRequest request : requests) {
      request.prompt = Prompt(4, 200);
      request.params.max_tokens = -1;
      request.params.ignore_eos = true;
      EXPECT_EQ(Cached(&engine, request), 0) << "each takes the whole memory";
    }
  }
}

}  // namespace
}  // namespace deepinfer::engine
