// A request and what comes back from it. Ids only: text is the caller's business (engine/text_stream.h). Plain data.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace deepinfer::engine {

struct SamplingParams {
  double temperature = 1.0;  // 0: greedy
  double top_p = 1.0;        // [0, 1]; 1: off; 0: greedy
  int32_t top_k = 0;         // 0: off
  double min_p = 0;          // [0, 1]; 0: off
  uint64_t seed = 0;
  uint32_t choice = 0;
  int64_t max_tokens = -1;  // -1: what the context leaves; 0: only together with prompt logits
  int32_t logprobs = -1;    // -1: none; 0: the token's own; n <= 20: also the n best
  bool ignore_eos = false;
};

// Fails naming the parameter.
Status Validate(const SamplingParams& params);

enum class FinishReason { kStop, kLength, kCancelled, kError };
const char* ToString(FinishReason reason);  // "stop" "length" "cancelled" "error"

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0;
};

struct TokenEvent {
  int32_t id = 0;
  float logprob = 0;              // if asked for
  std::vector<TokenLogprob> top;  // best first
};

// Told of everything that happens to its request, from within Engine::Step.
class RequestObserver {
 public:
  virtual ~RequestObserver() = default;
  // False ends the request with kStop (a stop string was found).
  virtual bool OnToken(const TokenEvent& event) = 0;
  // Logits after prompt position `position`, if the request asked for them. Valid during the call.
  virtual void OnPromptLogits(int64_t /*position*/, const float* /*logits*/, int64_t /*vocab*/) {}
  virtual void OnFinish(FinishReason reason, const std::optional<Error>& error) = 0;
};

struct GenerationRequest {
  std::vector<int32_t> prompt;
  SamplingParams params;
  std::vector<int32_t> stop_ids;  // end the request; reported as its last token
  bool prompt_logits = false;     // OnPromptLogits for every position
};

}  // namespace deepinfer::engine
