// How many tokens of prompts a step may take while sequences decode and wait for it: as many as the machine computes
// in a given time.
//
// The milliseconds that one more token costs are the slope of a line through the (tokens, milliseconds) of the last
// steps, fitted by least squares with weights that fall from step to step. A step's fixed costs, such as reading all
// weights once, are paid by those who decode anyway and do not count. Equal steps would hide what a token costs: one in
// kStepsPerProbe has half the tokens. Not thread-safe.
#pragma once

#include <cstdint>

namespace deepinfer::engine {

struct PrefillLimits {
  double budget_ms = 0;  // for the tokens of prompts in one step; 0: always `largest`
  int64_t smallest = 1;  // tokens, but for the steps that probe
  int64_t largest = 1;   // at least `smallest`
};

class PrefillPace {
 public:
  static constexpr int kStepsPerProbe = 16;

  explicit PrefillPace(PrefillLimits limits) : limits_(limits) {}

  // A step computed so many tokens, of prompts and others, in this time.
  void Observe(int64_t tokens, double ms);
  // At most this many tokens of prompts belong into the next step. While nothing is known, limits.smallest.
  int64_t Next();

 private:
  PrefillLimits limits_;
  double weight_ = 0;  // of all steps seen; the means and sums are weighted alike
  double mean_tokens_ = 0;
  double mean_ms_ = 0;
  double variance_ = 0;    // sum of squared deviations of tokens
  double covariance_ = 0;  // sum of products of both deviations
  double ms_per_token_ = 0;
  int until_probe_ = kStepsPerProbe;
};

}  // namespace deepinfer::engine
