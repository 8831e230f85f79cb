// DRY ("don't repeat yourself"): a penalty for each token that would continue a repetition of what came before, growing
// exponentially with the length of the repetition. Source: p-e-w's sampler of that name in text-generation-webui
// (2024); repetitions are found in linear time with a Z-function.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/request.h"

namespace deepinfer::engine {

class Dry {
 public:
  struct Penalty {
    int32_t id = 0;
    float value = 0;
  };

  // max_tokens: the most that Find will be given; it allocates nothing up to there. One thread at a time.
  Dry(const SamplingParams& params, int64_t max_tokens);

  bool enabled() const { return multiplier_ > 0; }
  // For tokens so far, prompt included: each token that followed an earlier occurrence of their end, if they agree in n
  // >= allowed_length tokens, with multiplier * base ^ (n - allowed_length); an id may come more than once. Breakers
  // end an occurrence and are never penalised. Valid until the next call.
  std::span<const Penalty> Find(std::span<const int32_t> tokens);

 private:
  bool IsBreaker(int32_t id) const;
  void MatchFromEnd(std::span<const int32_t> tokens);

  double multiplier_, base_;
  int64_t allowed_length_, range_;
  std::vector<int32_t> breakers_;  // sorted
  std::vector<int32_t> matches_;   // [i]: how many tokens before the i-th last one agree with the end
  std::vector<Penalty> found_;
};

}  // namespace deepinfer::engine
