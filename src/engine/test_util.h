// Helpers of this room's tests (and of tests/): an observer that keeps everything, a model opened on the CPU backend,
// requests run to their end with the scheduler's invariants checked after every step. Not thread-safe.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace deepinfer::engine {

// What a request got.
struct Answer {
  std::vector<int32_t> tokens;
  std::vector<TokenEvent> events;
  std::vector<float> prompt_logits;         // [prompt, vocab], if asked for
  std::vector<TokenEvent> prompt_logprobs;  // of prompt tokens 1, 2, ..., if asked for
  std::optional<FinishReason> reason;
  std::optional<Error> error;
  FinishEvent finish;
};

class Recorder : public RequestObserver {
 public:
  bool OnToken(const TokenEvent& event) override {
    Answer& answer = Of(event.choice);
    EXPECT_FALSE(answer.reason) << "a token after the end";
    answer.tokens.push_back(event.id);
    answer.events.push_back(event);
    return !on_token || on_token(event);
  }
  void OnPromptLogits(int64_t position, const float* logits, int64_t vocab) override {
    EXPECT_EQ(position * vocab, static_cast<int64_t>(answer.prompt_logits.size())) << "positions come in order, once";
    answer.prompt_logits.insert(answer.prompt_logits.end(), logits, logits + vocab);
  }
  void OnPromptLogprob(int64_t position, const TokenEvent& event) override {
    EXPECT_EQ(position, static_cast<int64_t>(answer.prompt_logprobs.size()) + 1) << "positions come in order, once";
    answer.prompt_logprobs.push_back(event);
  }
  void OnFinish(const FinishEvent& event) override {
    Answer& answer = Of(event.choice);
    EXPECT_FALSE(answer.reason) << "finished twice";
    EXPECT_FALSE(finished_) << "a choice ends after the last one";
    EXPECT_EQ(event.generated_tokens, static_cast<int64_t>(answer.tokens.size()));
    EXPECT_EQ(event.error.has_value(), event.reason == FinishReason::kError);
    answer.reason = event.reason;
    answer.error = event.error;
    answer.finish = event;
    finished_ = event.last;
  }
  bool finished() const { return finished_; }
  Answer& Of(uint32_t choice) { return choice == 0 ? answer : others[choice]; }

  Answer answer;                                    // of choice 0
  std::map<uint32_t, Answer> others;                // of the other choices
  std::function<bool(const TokenEvent&)> on_token;  // may be empty

 private:
  bool finished_ = false;
};

inline GenerationRequest Request(std::vector<int32_t> prompt, int64_t max_tokens = -1, double temperature = 0) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.params.temperature = temperature;
  request.params.max_tokens = max_tokens;
  return request;
}

// Tokens, log-probabilities and how it ended.
inline void ExpectSameAnswer(const Answer& left, const Answer& right) {
  EXPECT_EQ(left.tokens, right.tokens);
  EXPECT_EQ(left.reason, right.reason);
  ASSERT_EQ(left.events.size(), right.events.size());
  for (size_t n = 0; n < left.events.size(); ++n) {
    EXPECT_EQ(left.events[n].logprob, right.events[n].logprob) << "token " << n;
    ASSERT_EQ(left.events[n].top.size(), right.events[n].top.size()) << "token " << n;
    for (size_t i = 0; i < left.events[n].top.size(); ++i) {
      EXPECT_EQ(left.events[n].top[i].id, right.events[n].top[i].id) << "token " << n;
      EXPECT_EQ(left.events[n].top[i].logprob, right.events[n].top[i].logprob) << "token " << n;
    }
  }
}

// Every plan and every state is checked.
inline EngineOptions Checked(bool async_stepping = true) {
  EngineOptions options;
  options.async_stepping = async_stepping;
  options.check_invariants = true;
  options.prefill_step_ms = 0;  // so that plans do not depend on the machine
  return options;
}

// Steps until nothing is left; stops with a failure if that takes more steps than any sound schedule would.
inline void RunChecked(Engine* engine) {
  for (int step = 0; engine->HasWork(); ++step) {
    const Status status = engine->Step();
    ASSERT_TRUE(status) << status.error().ToString();
    const Status sound = engine->scheduler().CheckInvariants();
    ASSERT_TRUE(sound) << sound.error().ToString();
    ASSERT_LT(step, 20000) << "the engine does not come to an end";
  }
  EXPECT_TRUE(engine->scheduler().empty());
}

// All requests at once, in a new engine.
inline std::vector<Answer> RunAll(runner::ModelRunner* runner, const std::vector<GenerationRequest>& requests,
                                  const EngineOptions& options = Checked()) {
  Engine engine(runner, options);
  std::vector<Recorder> recorders(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    auto id = engine.Add(requests[i], &recorders[i]);
    EXPECT_TRUE(id) << id.error().ToString();
  }
  RunChecked(&engine);
  std::vector<Answer> answers;
  for (Recorder& recorder : recorders) answers.push_back(std::move(recorder.answer));
  return answers;
}

}  // namespace deepinfer::engine
