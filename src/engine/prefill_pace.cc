#include "engine/prefill_pace.h"

#include <algorithm>

namespace deepinfer::engine {
namespace {

constexpr double kKept = 0.97;  // of a step's weight when the next one comes
// Tokens. Steps that differ less say nothing about one token's time; one of 8 among 15 of 16 says enough.
constexpr double kSpread = 1.5;

}  // namespace

void PrefillPace::Observe(int64_t tokens, double ms) {
  const double off = static_cast<double>(tokens) - mean_tokens_;
  weight_ = weight_ * kKept + 1;
  mean_tokens_ += off / weight_;
  mean_ms_ += (ms - mean_ms_) / weight_;
  variance_ = variance_ * kKept + off * (static_cast<double>(tokens) - mean_tokens_);
  covariance_ = covariance_ * kKept + off * (ms - mean_ms_);
  if (variance_ < weight_ * kSpread * kSpread || covariance_ <= 0) return;
  ms_per_token_ = covariance_ / variance_;
}

int64_t PrefillPace::Next() {
  if (limits_.budget_ms <= 0) return limits_.largest;
  const double wanted = ms_per_token_ > 0 ? limits_.budget_ms / ms_per_token_ : 0;
  const double bounded = std::min(wanted, static_cast<double>(limits_.largest));
  const int64_t tokens = std::max(static_cast<int64_t>(bounded), limits_.smallest);
  if (--until_probe_ > 0) return tokens;
  until_probe_ = kStepsPerProbe;
  return (tokens + 1) / 2;
}

}  // namespace deepinfer::engine
