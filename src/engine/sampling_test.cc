// Sampling, seen from a request: what is drawn depends on its seed, choice and position and on nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/scripted.h"

namespace deepinfer::engine {
namespace {

constexpr int64_t kVocab = 320;

// A model whose logits are spread out: the tiny stored one.
class SamplingTest : public ::testing::Test {
 protected:
  static std::unique_ptr<runner::ModelRunner> Open(int64_t seqs, int64_t tokens, DType dtype = DType::kF32) {
    runner::RunnerOptions options = SmallOptions(seqs, tokens);
    options.activations = dtype;
    return MustOpenOnCpu(std::string(DI_SOURCE_DIR) + "/tests/data/oracle/llama_f32", options);
  }
  void SetUp() override {
    runner_ = Open(8, 64);
    ASSERT_NE(runner_, nullptr);
  }
  Answer One(const GenerationRequest& request) { return RunAll(runner_.get(), {request})[0]; }

  static GenerationRequest Sampled(uint64_t seed, double temperature = 1, int64_t max_tokens = 40) {
    GenerationRequest request = Request({7, 3, static_cast<int32_t>(11 + seed % 5)}, max_tokens, temperature);
    request.params.seed = seed;
    return request;
  }

  std::unique_ptr<runner::ModelRunner> runner_;
};

TEST_F(SamplingTest, TheSameAloneBatchedAndInAnyRow) {
  std::vector<GenerationRequest> requests;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    requests.push_back(Sampled(seed, 0.3 + 0.15 * static_cast<double>(seed)));
    SamplingParams& params = requests.back().params;
    if (seed % 3 == 1) params.top_p = 0.9;
    if (seed % 4 == 1) params.top_k = 20;
    if (seed % 5 == 1) params.min_p = 0.02;
    params.choice = static_cast<uint32_t>(seed / 6);
  }
  std::vector<Ids> alone;
  for (const GenerationRequest& request : requests) alone.push_back(One(request).tokens);
  for (const Ids& tokens : alone) {
    ASSERT_EQ(tokens.size(), 40u);
    EXPECT_GT(std::set<int32_t>(tokens.begin(), tokens.end()).size(), 3u) << "hardly random";
  }

  const std::vector<Answer> batched = RunAll(runner_.get(), requests);
  for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(batched[i].tokens, alone[i]) << i;

  std::vector<GenerationRequest> reversed(requests.rbegin(), requests.rend());
  const auto other = Open(5, 7);  // other rows, buckets and chunks
  ASSERT_NE(other, nullptr);
  const std::vector<Answer> elsewhere = RunAll(other.get(), reversed);
  for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(elsewhere[requests.size() - 1 - i].tokens, alone[i]) << i;
}

TEST_F(SamplingTest, SeedAndChoiceMatter) {
  GenerationRequest request = Sampled(10);
  const Ids first = One(request).tokens;
  EXPECT_EQ(One(request).tokens, first);
  request.params.choice = 1;
  EXPECT_NE(One(request).tokens, first);
  request.params.choice = 0;
  request.params.seed += uint64_t{1} << 40;
  EXPECT_NE(One(request).tokens, first);
}

TEST_F(SamplingTest, AContinuedRequestDrawsTheSame) {
  const GenerationRequest request = Sampled(4);
  const Ids tokens = One(request).tokens;
  GenerationRequest rest = request;
  rest.prompt.insert(rest.prompt.end(), tokens.begin(), tokens.begin() + 15);
  rest.params.max_tokens = 25;
  EXPECT_EQ(One(rest).tokens, Ids(tokens.begin() + 15, tokens.end()));
}

TEST_F(SamplingTest, TheLimitsOfSamplingAreGreedy) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const Ids greedy = One(Sampled(seed, 0)).tokens;
    EXPECT_EQ(One(Sampled(seed, 1e-9)).tokens, greedy);
    EXPECT_EQ(One(Sampled(seed, 1e-30)).tokens, greedy) << "temperatures below what f32 divides by";
    GenerationRequest request = Sampled(seed, 1.3);
    request.params.top_k = 1;
    EXPECT_EQ(One(request).tokens, greedy);
    request = Sampled(seed, 1.3);
    request.params.top_p = 0;
    EXPECT_EQ(One(request).tokens, greedy);
    request = Sampled(seed, 1.3);
    request.params.top_p = 1e-6;
    EXPECT_EQ(One(request).tokens, greedy);
    request = Sampled(seed, 1.3);
    request.params.min_p = 1;
    EXPECT_EQ(One(request).tokens, greedy);
  }
}

// Log-probabilities of the model itself, from the logits of the same positions.
std::vector<double> LogSoftmax(const float* logits) {
  const double best = *std::max_element(logits, logits + kVocab);
  double sum = 0;
  for (int64_t i = 0; i < kVocab; ++i) sum += std::exp(logits[i] - best);
  std::vector<double> out(kVocab);
  for (int64_t i = 0; i < kVocab; ++i) out[i] = logits[i] - best - std::log(sum);
  return out;
}

TEST_F(SamplingTest, LogprobsAreThoseOfTheLogits) {
  for (const double temperature : {0.0, 1.0, 2.0}) {
    GenerationRequest request = Sampled(3, temperature, 20);
    request.params.logprobs = 20;
    const Answer answer = One(request);
    GenerationRequest forced = request;
    forced.prompt.insert(forced.prompt.end(), answer.tokens.begin(), answer.tokens.end());
    forced.params.max_tokens = -1;
    forced.prompt_logits = true;
    const Answer logits = One(forced);
    ASSERT_EQ(logits.prompt_logits.size(), forced.prompt.size() * kVocab);
    for (size_t n = 0; n < answer.events.size(); ++n) {
      const std::vector<double> right = LogSoftmax(&logits.prompt_logits[(request.prompt.size() - 1 + n) * kVocab]);
      const TokenEvent& event = answer.events[n];
      EXPECT_NEAR(event.logprob, right[event.id], 1e-5);
      ASSERT_EQ(event.top.size(), 20u);
      double total = 0;
      for (size_t i = 0; i < event.top.size(); ++i) {
        EXPECT_NEAR(event.top[i].logprob, right[event.top[i].id], 1e-5);
        if (i > 0) {
          EXPECT_LE(event.top[i].logprob, event.top[i - 1].logprob);
        }
        if (event.top[i].id == event.id) {
          EXPECT_EQ(event.top[i].logprob, event.logprob);
        }
        total += std::exp(event.top[i].logprob);
      }
      EXPECT_LE(total, 1 + 1e-5);
      EXPECT_NEAR(event.top[0].logprob, *std::max_element(right.begin(), right.end()), 1e-5);
      if (temperature == 0) {
        EXPECT_EQ(event.top[0].id, event.id);
      }
    }
  }
}

TEST_F(SamplingTest, AsManyLogprobsAsAskedFor) {
  GenerationRequest none = Sampled(1, 1, 5);
  GenerationRequest own = none;
  own.params.logprobs = 0;
  GenerationRequest three = none;
  three.params.logprobs = 3;
  const std::vector<Answer> answers = RunAll(runner_.get(), {none, own, three});
  for (int n = 0; n < 5; ++n) {
    EXPECT_TRUE(answers[0].events[n].top.empty());
    EXPECT_EQ(answers[0].events[n].logprob, 0);
    EXPECT_TRUE(answers[1].events[n].top.empty());
    EXPECT_LT(answers[1].events[n].logprob, 0);
    EXPECT_EQ(answers[2].events[n].top.size(), 3u);
    EXPECT_EQ(answers[2].events[n].logprob, answers[1].events[n].logprob);
  }
}

// A vocabulary smaller than the longest list: all of it is listed and the probabilities sum to one.
TEST(SamplingSmallVocabTest, LogprobsOfEveryTokenSumToOne) {
  const nlohmann::json json = {{"vocab_size", 16}, {"scripts", {{3, 4, 5}}}, {"eos_ids", {2}}, {"max_positions", 512}};
  const auto runner = OpenScripted(json, SmallOptions(2, 32));
  ASSERT_NE(runner, nullptr);
  GenerationRequest request = Request({1, 8, 9}, 6, 30);
  request.params.logprobs = 20;
  const Answer answer = RunAll(runner.get(), {request})[0];
  ASSERT_EQ(answer.events.size(), 6u);
  for (const TokenEvent& event : answer.events) {
    ASSERT_EQ(event.top.size(), 16u);
    double total = 0;
    std::set<int32_t> ids;
    for (size_t i = 0; i < event.top.size(); ++i) {
      total += std::exp(event.top[i].logprob);
      ids.insert(event.top[i].id);
      // Equal ones come in the order of their ids.
      if (i > 1) {
        EXPECT_LT(event.top[i - 1].id, event.top[i].id);
      }
    }
    EXPECT_NEAR(total, 1, 1e-5);
    EXPECT_EQ(ids.size(), 16u);
  }
}

// How often each token is drawn, against the probabilities.
TEST_F(SamplingTest, FrequenciesFollowTheProbabilities) {
  constexpr int kDraws = 2000;
  GenerationRequest request = Sampled(0, 0.7, 1);
  request.params.top_k = 5;
  request.params.logprobs = 20;
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < kDraws; ++i) {
    request.params.seed = static_cast<uint64_t>(i);
    requests.push_back(request);
  }
  const std::vector<Answer> answers = RunAll(runner_.get(), requests);
  std::map<int32_t, double> expected;
  double total = 0;
  for (int i = 0; i < 5; ++i) {
    const TokenLogprob& top = answers[0].events[0].top[i];
    total += expected[top.id] = std::exp(top.logprob / 0.7);
  }
  std::map<int32_t, int> counts;
  for (const Answer& answer : answers) ++counts[answer.tokens[0]];
  for (const auto& [id, count] : counts) {
    ASSERT_TRUE(expected.count(id)) << id << " is not among the five best";
  }
  for (const auto& [id, weight] : expected) {
    const double p = weight / total;
    EXPECT_NEAR(counts[id], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p)) + 1) << id;
  }
}

}  // namespace
}  // namespace deepinfer::engine
