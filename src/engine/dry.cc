#include "engine/dry.h"

#include <algorithm>
#include <cmath>

namespace deepinfer::engine {
namespace {

constexpr double kLargestPenalty = 1e30;  // finite in f32

}  // namespace

Dry::Dry(const SamplingParams& params, int64_t max_tokens)
    : multiplier_(params.dry_multiplier),
      base_(params.dry_base),
      allowed_length_(params.dry_allowed_length),
      range_(params.dry_range),
      breakers_(params.dry_breaker_ids) {
  if (!enabled()) return;
  std::sort(breakers_.begin(), breakers_.end());
  const auto longest = static_cast<size_t>(range_ < 0 ? max_tokens : std::min(range_, max_tokens));
  matches_.reserve(longest);
  found_.reserve(longest);
}

bool Dry::IsBreaker(int32_t id) const {
  return std::binary_search(breakers_.begin(), breakers_.end(), id);
}

// The Z-function of the tokens read backwards.
void Dry::MatchFromEnd(std::span<const int32_t> tokens) {
  const auto count = static_cast<int64_t>(tokens.size());
  const auto back = [&](int64_t i) { return tokens[static_cast<size_t>(count - 1 - i)]; };
  matches_.assign(tokens.size(), 0);
  int64_t left = 0, right = 0;  // the match that reaches farthest
  for (int64_t i = 1; i < count; ++i) {
    int64_t length = i < right ? std::min<int64_t>(right - i, matches_[i - left]) : 0;
    while (i + length < count && back(length) == back(i + length)) ++length;
    if (i + length > right) {
      left = i;
      right = i + length;
    }
    matches_[i] = static_cast<int32_t>(length);
  }
}

std::span<const Dry::Penalty> Dry::Find(std::span<const int32_t> tokens) {
  found_.clear();
  if (range_ >= 0 && static_cast<int64_t>(tokens.size()) > range_) tokens = tokens.last(static_cast<size_t>(range_));
  int64_t unbroken = 0;
  for (auto it = tokens.rbegin(); it != tokens.rend() && !IsBreaker(*it); ++it) ++unbroken;
  if (unbroken < allowed_length_) return {};
  MatchFromEnd(tokens);
  for (size_t i = 1; i < tokens.size(); ++i) {
    const int64_t length = std::min<int64_t>(matches_[i], unbroken);
    const int32_t next = tokens[tokens.size() - i];
    if (length < allowed_length_ || IsBreaker(next)) continue;
    const double penalty = multiplier_ * std::pow(base_, static_cast<double>(length - allowed_length_));
    found_.push_back({next, static_cast<float>(std::min(penalty, kLargestPenalty))});
  }
  return found_;
}

}  // namespace deepinfer::engine
