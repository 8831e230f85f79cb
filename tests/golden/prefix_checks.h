// What tests of prefix caching share: requests on one engine against the same requests alone on a fresh one. Log-
// probabilities of the twenty best are compared bit for bit after every token; a logit of any other token would change
// them too, through their sum.
#pragma once

#include "harness.h"

namespace deepinfer::golden {

inline engine::GenerationRequest WithLogprobs(const Ids& prompt, int64_t tokens) {
  engine::GenerationRequest request = engine::Request(prompt, tokens);
  request.params.logprobs = 20;
  request.params.ignore_eos = true;
  return request;
}

// Alone, cold, one step after the other.
inline engine::Answer ColdRun(runner::ModelRunner* runner, const engine::GenerationRequest& request) {
  return engine::RunAll(runner, {request}, engine::Checked(/*async_stepping=*/false))[0];
}

inline engine::Answer RunOn(engine::Engine* engine, const engine::GenerationRequest& request) {
  engine::Recorder recorder;
  const auto id = engine->Add(request, &recorder);
  EXPECT_TRUE(id) << id.error().ToString();
  engine::RunChecked(engine);
  return std::move(recorder.answer);
}

// Each prompt twice, then with its answer and something more behind it. Cold runs come first: an engine writes the
// blocks that another one of the same runner remembers.
inline void ExpectPrefixesChangeNoBit(runner::ModelRunner* runner, const std::vector<Ids>& prompts, int64_t tokens) {
  const int64_t block = runner->options().block_size;
  std::vector<engine::GenerationRequest> requests, turns;
  std::vector<engine::Answer> cold, cold_turns;
  for (const Ids& prompt : prompts) {
    requests.push_back(WithLogprobs(prompt, tokens));
    cold.push_back(ColdRun(runner, requests.back()));
    turns.push_back(requests.back());
    Ids& next = turns.back().prompt;
    next.insert(next.end(), cold.back().tokens.begin(), cold.back().tokens.end());
    next.insert(next.end(), {7, 3, 11, 3, 9});
    cold_turns.push_back(ColdRun(runner, turns.back()));
  }
  engine::Engine engine(runner, engine::Checked());
  for (size_t i = 0; i < prompts.size(); ++i) {
    SCOPED_TRACE(fmt::format("{} tokens", prompts[i].size()));
    engine::ExpectSameAnswer(RunOn(&engine, requests[i]), cold[i]);
    const engine::Answer warm = RunOn(&engine, requests[i]);
    engine::ExpectSameAnswer(warm, cold[i]);
    const auto length = static_cast<int64_t>(prompts[i].size());
    EXPECT_EQ(warm.finish.cached_tokens, std::min(length / block * block, length - 1));
    const engine::Answer turn = RunOn(&engine, turns[i]);
    engine::ExpectSameAnswer(turn, cold_turns[i]);
    EXPECT_EQ(turn.finish.cached_tokens, (length + tokens - 1) / block * block) << "the last token was never an input";
  }
}

// Three sampled choices of each prompt, all prompts at once.
inline void ExpectChoicesAreAlone(runner::ModelRunner* runner, const std::vector<Ids>& prompts, int64_t tokens) {
  engine::Engine engine(runner, engine::Checked());
  std::vector<engine::Recorder> recorders(prompts.size());
  std::vector<engine::GenerationRequest> requests;
  for (size_t i = 0; i < prompts.size(); ++i) {
    requests.push_back(WithLogprobs(prompts[i], tokens));
    requests.back().params.temperature = 0.8;
    requests.back().params.seed = i;
    engine::GenerationRequest three = requests.back();
    three.n = 3;
    ASSERT_TRUE(engine.Add(three, &recorders[i]));
  }
  engine::RunChecked(&engine);
  for (size_t i = 0; i < prompts.size(); ++i) {
    for (uint32_t choice = 0; choice < 3; ++choice) {
      SCOPED_TRACE(fmt::format("prompt {}, choice {}", i, choice));
      requests[i].params.choice = choice;
      engine::ExpectSameAnswer(recorders[i].Of(choice), ColdRun(runner, requests[i]));
    }
  }
}

}  // namespace deepinfer::golden
