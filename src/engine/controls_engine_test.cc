// Penalties, masks, grammars and prompt log-probabilities, seen from a request.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/counting_grammar.h"
#include "engine/scripted.h"

namespace deepinfer::engine {
namespace {

constexpr int64_t kVocab = 320;

class ControlsTest : public ::testing::Test {
 protected:
  static std::unique_ptr<runner::ModelRunner> Open(int64_t seqs, int64_t tokens) {
    return MustOpenOnCpu(std::string(DI_SOURCE_DIR) + "/tests/data/oracle/llama_f32", SmallOptions(seqs, tokens));
  }
  void SetUp() override {
    runner_ = Open(8, 64);
    ASSERT_NE(runner_, nullptr);
  }
  Answer One(const GenerationRequest& request) { return RunAll(runner_.get(), {request})[0]; }

  // Row i: the logits after the first i + 1 of `tokens`.
  std::vector<float> LogitsOf(const Ids& tokens) {
    GenerationRequest request = Request(tokens);
    request.prompt_logits = true;
    return One(request).prompt_logits;
  }

  std::unique_ptr<runner::ModelRunner> runner_;
};

// What greedy must choose after `history`, by the definition.
int32_t Expected(const SamplingParams& p, const float* logits, const Ids& prompt, const Ids& output,
                 const Ids& banned) {
  std::vector<float> l(logits, logits + kVocab);
  for (const LogitBias& entry : p.logit_bias) l[entry.id] += static_cast<float>(entry.bias);
  for (int32_t id = 0; id < kVocab; ++id) {
    const auto in_output = std::count(output.begin(), output.end(), id);
    const bool seen = in_output > 0 || std::count(prompt.begin(), prompt.end(), id) > 0;
    const float factor = seen ? static_cast<float>(p.repetition_penalty) : 1.0f;
    l[id] = l[id] > 0 ? l[id] / factor : l[id] * factor;
    const double counted = p.presence_penalty + p.frequency_penalty * static_cast<double>(in_output);
    l[id] -= static_cast<float>(in_output > 0 ? counted : 0.0);
    if (std::count(banned.begin(), banned.end(), id) > 0) l[id] = -INFINITY;
  }
  return static_cast<int32_t>(std::max_element(l.begin(), l.end()) - l.begin());
}

TEST_F(ControlsTest, GreedyFollowsTheDefinition) {
  std::vector<SamplingParams> cases(5);
  cases[0].repetition_penalty = 1.3;
  cases[1].presence_penalty = 1.5;
  cases[2].frequency_penalty = 0.7;
  cases[3].logit_bias = {{5, 3}, {9, -100}, {17, 2}};
  cases[3].banned_ids = {17, 40};
  cases[4].repetition_penalty = 0.8;
  cases[4].presence_penalty = -0.5;
  cases[4].frequency_penalty = 0.4;
  cases[4].logit_bias = {{7, 1}};
  const Ids prompt = {7, 3, 11, 3};
  const Ids plain = One(Request(prompt, 30)).tokens;
  for (size_t i = 0; i < cases.size(); ++i) {
    GenerationRequest request = Request(prompt, 30);
    const SamplingParams& p = cases[i];
    request.params = p;
    request.params.temperature = 0;
    request.params.max_tokens = 30;
    const Ids tokens = One(request).tokens;
    ASSERT_EQ(tokens.size(), 30u);
    EXPECT_NE(tokens, plain) << "case " << i << " shows nothing";
    Ids all = prompt;
    all.insert(all.end(), tokens.begin(), tokens.end());
    const std::vector<float> logits = LogitsOf(all);
    for (size_t n = 0; n < tokens.size(); ++n) {
      const Ids output(tokens.begin(), tokens.begin() + static_cast<int64_t>(n));
      EXPECT_EQ(tokens[n], Expected(p, &logits[(prompt.size() - 1 + n) * kVocab], prompt, output, p.banned_ids))
          << "case " << i << " token " << n;
    }
  }
}

TEST_F(ControlsTest, OnlyAllowedIdsComeOut) {
  for (const double temperature : {0.0, 1.5}) {
    GenerationRequest request = Request({7, 3}, 40, temperature);
    request.params.allowed_ids = {10, 31, 32, 319};
    request.params.banned_ids = {31};
    for (const int32_t id : One(request).tokens) EXPECT_TRUE(id == 10 || id == 32 || id == 319) << id;
  }
}

// The last token of a word is never chosen after those before it, and every other choice is the definition's.
TEST_F(ControlsTest, BadWordsDoNotComeOut) {
  const Ids prompt = {7, 3, 11, 3};
  const Ids plain = One(Request(prompt, 30)).tokens;
  GenerationRequest request = Request(prompt, 30);
  for (const int64_t length : {2, 3, 4}) {  // how the answer begins is a bad word, again and again
    const Ids said = One(request).tokens;
    request.params.bad_words.push_back(Ids(said.begin(), said.begin() + length));
  }
  request.params.bad_words.push_back({plain[20]});
  request.params.bad_words.push_back({prompt[3], plain[1]});
  std::vector<GenerationRequest> both = {request, Request(prompt, 30)};
  const std::vector<Answer> answers = RunAll(runner_.get(), both);
  EXPECT_EQ(answers[1].tokens, plain) << "a neighbour's";
  const Ids& tokens = answers[0].tokens;
  ASSERT_EQ(tokens.size(), 30u);
  EXPECT_EQ(One(request).tokens, tokens);
  EXPECT_EQ(RunAll(runner_.get(), {request}, Checked(/*async_stepping=*/false))[0].tokens, tokens);
  Ids all = prompt;
  all.insert(all.end(), tokens.begin(), tokens.end());
  const std::vector<float> logits = LogitsOf(all);
  size_t cut = 0;
  for (size_t n = 0; n < tokens.size(); ++n) {
    const Ids output(tokens.begin(), tokens.begin() + static_cast<int64_t>(n));
    Ids banned;
    for (const Ids& word : request.params.bad_words) {
      const size_t before = word.size() - 1;
      if (before > n) continue;
      if (std::equal(word.begin(), word.end() - 1, output.end() - static_cast<int64_t>(before))) {
        banned.push_back(word.back());
        cut += before > 0 ? 1 : 0;
      }
    }
    EXPECT_EQ(tokens[n], Expected(request.params, &logits[(prompt.size() - 1 + n) * kVocab], prompt, output, banned))
        << n;
  }
  EXPECT_GT(cut, 0u) << "no word of several tokens was cut: this shows nothing";
}

TEST_F(ControlsTest, DryEndsALoop) {
  GenerationRequest request = Request({7, 3, 7, 7}, 60);
  request.params.logit_bias = {{7, 30}};
  const Ids looping = One(request).tokens;
  ASSERT_EQ(std::count(looping.begin(), looping.end(), 7), 60);
  request.params.dry_multiplier = 5;
  const Ids tokens = One(request).tokens;
  EXPECT_LT(std::count(tokens.begin(), tokens.end(), 7), 58);
  EXPECT_GT(std::count(tokens.begin(), tokens.end(), 7), 20) << "it is no ban";
}

// Everything at once, alone, together, in other rows, buckets and chunks, and with blocks for hardly two of them.
TEST_F(ControlsTest, TheSameAloneBatchedAndPreempted) {
  std::vector<GenerationRequest> requests;
  for (int32_t i = 0; i < 10; ++i) {
    GenerationRequest request = Request({7, 3, 11 + i}, 40, i % 3 == 0 ? 0 : 0.5 + 0.1 * i);
    SamplingParams& p = request.params;
    p.seed = static_cast<uint64_t>(i);
    request.stop_ids = {static_cast<int32_t>(20 + i)};
    if (i % 2 == 0) p.repetition_penalty = 1.2;
    if (i % 3 == 1) p.frequency_penalty = 0.3;
    if (i % 3 == 2) p.presence_penalty = 0.6;
    if (i % 4 == 1) p.dry_multiplier = 0.8;
    if (i % 4 == 2) p.logit_bias = {{30 + i, 4}, {5, -3}};
    if (i % 5 == 1) p.typical_p = 0.7;
    if (i % 2 == 1) p.xtc_probability = 0.5;
    if (i % 5 == 2) p.banned_ids = {1, 2, 3};
    if (i % 3 == 0) p.min_tokens = 10;
    requests.push_back(request);
  }
  std::vector<Ids> alone;
  for (const GenerationRequest& request : requests) alone.push_back(One(request).tokens);
  const std::vector<Answer> batched = RunAll(runner_.get(), requests);
  for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(batched[i].tokens, alone[i]) << i;

  runner::RunnerOptions options = SmallOptions(5, 7);
  options.max_model_len = 64;
  options.kv_cache_memory = runner_->state_bytes() / runner_->num_blocks() * 7;
  const auto tight = MustOpenOnCpu(std::string(DI_SOURCE_DIR) + "/tests/data/oracle/llama_f32", options);
  ASSERT_NE(tight, nullptr);
  ASSERT_LT(tight->num_blocks(), 10) << "blocks for three of them: without preemption this shows less";
  const std::vector<Answer> elsewhere = RunAll(tight.get(), {requests.rbegin(), requests.rend()});
  for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(elsewhere[requests.size() - 1 - i].tokens, alone[i]) << i;
}

TEST(ControlsScriptedTest, NoEndBeforeMinTokens) {
  const auto runner = OpenScripted(FiveScripts(), SmallOptions(4, 64));
  ASSERT_NE(runner, nullptr);
  for (const int64_t min_tokens : {0, 1, 3, 4, 10}) {
    GenerationRequest request = ScriptRequest(1, 4, 30);  // 11, 12, end
    request.params.min_tokens = min_tokens;
    const Answer answer = RunAll(runner.get(), {request})[0];
    const auto end = std::find(answer.tokens.begin(), answer.tokens.end(), 2) - answer.tokens.begin();
    EXPECT_GE(end, min_tokens);
    if (min_tokens <= 2) {
      EXPECT_EQ(answer.tokens, (Ids{11, 12, 2}));
    }
  }
}

TEST_F(ControlsTest, AGrammarSteersEachRequestAlone) {
  std::vector<GenerationRequest> requests;
  for (int32_t i = 0; i < 6; ++i) {
    GenerationRequest request = Request({7, 3, i}, 30, i % 2 == 0 ? 0 : 1);
    request.stop_ids = {2};
    if (i % 3 != 2) request.grammar = std::make_shared<CountingGrammar>(10 + i, 3 + i);
    requests.push_back(request);
  }
  const std::vector<Answer> answers = RunAll(runner_.get(), requests);
  for (int32_t i = 0; i < 6; ++i) {
    if (i % 3 == 2) {
      EXPECT_EQ(answers[i].tokens, One(requests[i]).tokens);
      continue;
    }
    Ids expected;
    for (int32_t n = 1; n <= 3 + i; ++n) expected.push_back(n * (10 + i));
    EXPECT_EQ(answers[i].tokens, expected) << i;
    EXPECT_EQ(answers[i].reason, FinishReason::kStop);
  }
}

TEST_F(ControlsTest, GrammarsEndCutAndFail) {
  GenerationRequest request = Request({7}, 4);
  request.grammar = std::make_shared<CountingGrammar>(5, 6);
  Answer answer = One(request);
  EXPECT_EQ(answer.tokens, (Ids{5, 10, 15, 20}));
  EXPECT_EQ(answer.reason, FinishReason::kLength);

  // Ends where the model prefers the end, not before it may.
  request = Request({7}, 30);
  request.stop_ids = {2};
  request.params.logit_bias = {{2, 100}};
  request.grammar = std::make_shared<CountingGrammar>(5, 3, /*open_end=*/true);
  answer = One(request);
  EXPECT_EQ(answer.tokens, (Ids{5, 10, 15, 2}));
  EXPECT_EQ(answer.reason, FinishReason::kStop);
  request.params.min_tokens = 5;
  EXPECT_EQ(One(request).tokens, (Ids{5, 10, 15, 20, 25, 2}));

  // An error on the way concerns that request alone.
  request.params = {};
  request.params.temperature = 0;
  request.params.max_tokens = 30;
  request.grammar = std::make_shared<CountingGrammar>(5, 20);
  const GenerationRequest other = Request({7, 9}, 20);
  const std::vector<Answer> answers = RunAll(runner_.get(), {request, other});
  EXPECT_EQ(answers[0].reason, FinishReason::kError);
  EXPECT_EQ(answers[0].error->code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(answers[0].tokens.size(), 7u);
  EXPECT_EQ(answers[1].tokens, One(other).tokens);

  // No token that both the grammar and the ids allow.
  request.params.banned_ids = {10};
  answer = One(request);
  EXPECT_EQ(answer.tokens, (Ids{5}));
  EXPECT_EQ(answer.reason, FinishReason::kError);
  EXPECT_EQ(answer.error->where, "grammar");

  Engine engine(runner_.get());
  Recorder recorder;
  request.grammar = std::make_shared<CountingGrammar>(-1, 1);
  EXPECT_FALSE(engine.Add(request, &recorder));
  EXPECT_FALSE(engine.HasWork());
}

// Log-probabilities of the prompt: those of its logits, the same in chunks of any size, the first token without one.
TEST_F(ControlsTest, PromptLogprobsInChunks) {
  Ids prompt;
  for (int32_t i = 0; i < 50; ++i) prompt.push_back((i * 37 + 11) % 300);
  const std::vector<float> logits = LogitsOf(prompt);
  std::vector<std::vector<TokenEvent>> lists;
  for (const int64_t rows : {1, 7, 64}) {
    const auto runner = Open(rows, 64);
    ASSERT_NE(runner, nullptr);
    GenerationRequest request = Request(prompt, 0);
    request.prompt_logprobs = 4;
    const Answer answer = RunAll(runner.get(), {request})[0];
    EXPECT_EQ(answer.reason, FinishReason::kLength);
    EXPECT_TRUE(answer.tokens.empty());
    lists.push_back(answer.prompt_logprobs);
  }
  for (const auto& list : lists) {
    ASSERT_EQ(list.size(), prompt.size() - 1);
    for (size_t i = 0; i < list.size(); ++i) {
      const float* row = &logits[i * kVocab];
      const double best = *std::max_element(row, row + kVocab);
      double sum = 0;
      for (int64_t v = 0; v < kVocab; ++v) sum += std::exp(row[v] - best);
      EXPECT_EQ(list[i].id, prompt[i + 1]);
      EXPECT_NEAR(list[i].logprob, row[prompt[i + 1]] - best - std::log(sum), 1e-5);
      ASSERT_EQ(list[i].top.size(), 4u);
      EXPECT_EQ(row[list[i].top[0].id], best);
      const float own = row[list[i].id];
      EXPECT_EQ(list[i].rank, 1 + std::count_if(row, row + kVocab, [own](float other) { return other > own; }));
      for (size_t k = 0; k < 4; ++k)
        EXPECT_EQ(list[i].top[k].id == list[i].id, list[i].rank == static_cast<int64_t>(k) + 1);
      EXPECT_EQ(list[i].logprob, lists[0][i].logprob);
      for (size_t k = 0; k < 4; ++k) EXPECT_EQ(list[i].top[k].logprob, lists[0][i].top[k].logprob);
    }
  }
}

// What the prefix cache holds of a prompt is computed again for them; the same values come.
TEST_F(ControlsTest, PromptLogprobsDoNotUseThePrefixCache) {
  Ids prompt;
  for (int32_t i = 0; i < 70; ++i) prompt.push_back((i * 37 + 11) % 300);
  Engine engine(runner_.get(), Checked());
  GenerationRequest scored = Request(prompt, 3);
  scored.prompt_logprobs = 2;
  std::vector<Recorder> recorders(4);
  ASSERT_TRUE(engine.Add(scored, &recorders[0]));
  RunChecked(&engine);
  ASSERT_TRUE(engine.Add(Request(prompt, 3), &recorders[1]));
  RunChecked(&engine);
  EXPECT_GT(recorders[1].answer.finish.cached_tokens, 0) << "its blocks are there for others";
  scored.n = 2;
  ASSERT_TRUE(engine.Add(scored, &recorders[2]));
  RunChecked(&engine);
  EXPECT_EQ(recorders[2].answer.finish.cached_tokens, 0);
  const auto& first = recorders[0].answer.prompt_logprobs;
  const auto& again = recorders[2].answer.prompt_logprobs;
  ASSERT_EQ(first.size(), prompt.size() - 1);
  ASSERT_EQ(again.size(), first.size());
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].logprob, again[i].logprob) << i;
    EXPECT_EQ(first[i].rank, again[i].rank) << i;
  }
  EXPECT_EQ(recorders[2].answer.tokens, recorders[1].answer.tokens);
  EXPECT_EQ(recorders[2].Of(1).tokens, recorders[1].answer.tokens);
}

TEST_F(ControlsTest, PromptLogprobsBesideGeneration) {
  GenerationRequest request = Request({7, 3, 11}, 10);
  const Ids plain = One(request).tokens;
  request.prompt_logprobs = 0;
  request.params.logprobs = 2;
  const Answer answer = One(request);
  EXPECT_EQ(answer.tokens, plain);
  ASSERT_EQ(answer.prompt_logprobs.size(), 2u);
  EXPECT_TRUE(answer.prompt_logprobs[0].top.empty());
  EXPECT_EQ(answer.events[0].top.size(), 2u);
  EXPECT_EQ(answer.events[0].top[0].id, answer.tokens[0]);
}

}  // namespace
}  // namespace deepinfer::engine
