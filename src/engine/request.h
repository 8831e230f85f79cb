// A request and what comes back from it. Ids only: text is the caller's business (engine/text_stream.h). Plain data.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/token_constraint.h"
#include "models/step.h"

namespace deepinfer::engine {

// An addition to one token's logit.
struct LogitBias {
  int32_t id = 0;
  double bias = 0;  // [-100, 100]
};

// At most this many entries of logit_bias: beside the tokens of the context they have places of their own in a row's
// list of adjustments (models/step.h).
inline constexpr int64_t kMaxLogitBias = models::kMaxLogitBias;
// At most this many bad_words: each is compared with the end of the output after every token.
inline constexpr int64_t kMaxBadWords = 4096;

// Applied in the order that ir/sampling.h states. Ids must be below the model's vocabulary.
struct SamplingParams {
  double temperature = 1.0;              // 0: greedy
  double top_p = 1.0;                    // [0, 1]; 1: off; 0: greedy
  int32_t top_k = 0;                     // 0: off
  double min_p = 0;                      // [0, 1]; 0: off
  double typical_p = 1.0;                // (0, 1]; 1: off
  double xtc_probability = 0;            // [0, 1]; 0: off
  double xtc_threshold = 0.1;            // (0, 1]; above 0.5 nothing is ever excluded
  double repetition_penalty = 1.0;       // (0, 100]; 1: off; of tokens in the prompt or the output
  double presence_penalty = 0;           // [-2, 2]; 0: off; of tokens in the output
  double frequency_penalty = 0;          // [-2, 2]; 0: off; for each time a token is in the output
  double dry_multiplier = 0;             // [0, 100]; 0: off
  double dry_base = 1.75;                // [1, 10]
  int32_t dry_allowed_length = 2;        // >= 1; repetitions up to this length cost nothing
  int32_t dry_range = -1;                // tokens looked back at; -1: all
  std::vector<int32_t> dry_breaker_ids;  // a repetition does not go on across these
  std::vector<LogitBias> logit_bias;     // distinct ids
  std::vector<int32_t> allowed_ids;      // empty: all
  std::vector<int32_t> banned_ids;
  std::vector<std::vector<int32_t>> bad_words;  // token sequences that must not come in the output (engine/bad_words.h)
  uint64_t seed = 0;
  uint32_t choice = 0;      // of the request's first choice; the n-th after it draws with choice + n
  int64_t min_tokens = 0;   // the request's stop_ids are banned until there are so many
  int64_t max_tokens = -1;  // -1: what the context leaves; 0: only for what is computed of the prompt
  int32_t logprobs = -1;    // -1: none; 0: the token's own; n <= 20: also the n best; those of the model itself
  bool ignore_eos = false;
};

// Fails naming the parameter and its range. Ids are checked against `vocab`, if it is not 0.
Status Validate(const SamplingParams& params, int64_t vocab = 0);
// Fails naming the parameter and the first id outside [0, vocab).
Status CheckIds(const char* parameter, const std::vector<int32_t>& ids, int64_t vocab);

// kCancelled: Engine::Cancel (an abort, a client that went away). kDeadline: the request's own deadline passed.
enum class FinishReason { kStop, kLength, kCancelled, kDeadline, kError };
inline constexpr int kNumFinishReasons = 5;
const char* ToString(FinishReason reason);  // "stop" "length" "cancelled" "deadline" "error"

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0;
};

struct TokenEvent {
  int64_t request = 0;  // what Engine::Add returned
  uint32_t choice = 0;  // in [0, n)
  int32_t id = 0;
  float logprob = 0;              // if asked for
  int64_t rank = 0;               // of a prompt's token: 1 is the likeliest, ties go by id
  std::vector<TokenLogprob> top;  // best first
};

using Clock = std::chrono::steady_clock;

// When things happened to one choice. Clock::time_point() for what did not happen.
struct ChoiceTimes {
  Clock::time_point queued;           // Engine::Add
  Clock::time_point first_scheduled;  // its first step was planned
  Clock::time_point first_token;      // its first token was read
  Clock::time_point finished;
};

// The end of one choice.
struct FinishEvent {
  int64_t request = 0;
  uint32_t choice = 0;
  FinishReason reason = FinishReason::kError;
  std::optional<Error> error;  // with kError
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;     // of the prompt: not computed, found in the prefix cache by the first choice
  int64_t generated_tokens = 0;  // of this choice
  ChoiceTimes times;
  bool last = true;  // no choice of the request is left: nothing more comes
};

// Told of everything that happens to its request, from within Engine::Step, on the thread that calls it.
class RequestObserver {
 public:
  virtual ~RequestObserver() = default;
  // False ends the choice with kStop (a stop string was found).
  virtual bool OnToken(const TokenEvent& event) = 0;
  // Logits after prompt position `position`, if the request asked for them. Once per position. Valid during the call.
  virtual void OnPromptLogits(int64_t /*position*/, const float* /*logits*/, int64_t /*vocab*/) {}
  // The log-probability of prompt token `position` (from 1 on, in order), if the request asked for it.
  virtual void OnPromptLogprob(int64_t /*position*/, const TokenEvent& /*event*/) {}
  // Once per choice.
  virtual void OnFinish(const FinishEvent& event) = 0;
};

struct GenerationRequest {
  std::vector<int32_t> prompt;
  SamplingParams params;
  std::vector<int32_t> stop_ids;                             // end the choice; reported as its last token
  bool prompt_logits = false;                                // OnPromptLogits for every position
  int32_t prompt_logprobs = -1;                              // OnPromptLogprob, as params.logprobs; -1: none
  std::shared_ptr<const TokenGrammar> grammar;               // of the output; null: none
  int32_t n = 1;                                             // choices, 1 to 128: the prompt is computed once
  int32_t priority = 0;                                      // lower runs first; order of arrival among equals
  std::optional<Clock::time_point> deadline = std::nullopt;  // ends with kDeadline before the first step after it
  std::string cache_salt;  // cached prefixes are shared only among requests of equal salt

  // Every prompt position is computed, whatever the prefix cache holds, and gets a row.
  bool wants_prompt_rows() const { return prompt_logits || prompt_logprobs >= 0; }
  // What a row is sampled with depends on what the host makes of the token before it (grammars, penalties).
  bool depends_on_its_tokens() const;
};

// banned_ids, and the bad words that are one token.
std::set<int32_t> TokensBannedAlways(const SamplingParams& params);

// Fails naming the parameter. What depends on the model's lengths is Engine::Check's to find.
Status Validate(const GenerationRequest& request, int64_t vocab = 0);

}  // namespace deepinfer::engine
