#include "engine/request.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace deepinfer::engine {
namespace {

constexpr int32_t kMaxChoices = 128;

template <class T>
Status Check(bool ok, const char* parameter, const char* rule, const T& value) {
  if (ok) return {};
  return MakeError(ErrorCode::kInvalidArgument, parameter, "must be {}, got {}", rule, value);
}

Status CheckRange(double value, double low, double high, const char* parameter) {
  return Check(value >= low && value <= high, parameter, fmt::format("in [{}, {}]", low, high).c_str(), value);
}

Status CheckPenalties(const SamplingParams& p) {
  DI_RETURN_IF_ERROR(Check(p.repetition_penalty > 0 && p.repetition_penalty <= 100, "repetition_penalty",
                           "in (0, 100] (1: off)", p.repetition_penalty));
  DI_RETURN_IF_ERROR(CheckRange(p.presence_penalty, -2, 2, "presence_penalty"));
  DI_RETURN_IF_ERROR(CheckRange(p.frequency_penalty, -2, 2, "frequency_penalty"));
  DI_RETURN_IF_ERROR(CheckRange(p.dry_multiplier, 0, 100, "dry_multiplier"));
  DI_RETURN_IF_ERROR(CheckRange(p.dry_base, 1, 10, "dry_base"));
  DI_RETURN_IF_ERROR(Check(p.dry_allowed_length >= 1, "dry_allowed_length", ">= 1", p.dry_allowed_length));
  return Check(p.dry_range >= -1, "dry_range", ">= -1 (-1: all)", p.dry_range);
}

Status CheckLogitBias(const std::vector<LogitBias>& list, int64_t vocab) {
  constexpr char kName[] = "logit_bias";
  if (static_cast<int64_t>(list.size()) > kMaxLogitBias) {
    return MakeError(ErrorCode::kInvalidArgument, kName, "has {} entries, at most {} are allowed", list.size(),
                     kMaxLogitBias);
  }
  std::vector<int32_t> ids;
  for (const LogitBias& entry : list) {
    if (!(entry.bias >= -100 && entry.bias <= 100)) {
      return MakeError(ErrorCode::kInvalidArgument, kName, "of token {} must be in [-100, 100], got {}", entry.id,
                       entry.bias);
    }
    ids.push_back(entry.id);
  }
  DI_RETURN_IF_ERROR(CheckIds(kName, ids, vocab));
  std::sort(ids.begin(), ids.end());
  if (const auto twice = std::adjacent_find(ids.begin(), ids.end()); twice != ids.end()) {
    return MakeError(ErrorCode::kInvalidArgument, kName, "names token {} twice", *twice);
  }
  return {};
}

Status CheckBadWords(const std::vector<std::vector<int32_t>>& words, int64_t vocab) {
  constexpr char kName[] = "bad_words";
  if (static_cast<int64_t>(words.size()) > kMaxBadWords) {
    return MakeError(ErrorCode::kInvalidArgument, kName, "has {} token sequences, at most {} are allowed", words.size(),
                     kMaxBadWords);
  }
  for (const std::vector<int32_t>& word : words) {
    if (word.empty()) return MakeError(ErrorCode::kInvalidArgument, kName, "holds a sequence without tokens");
    DI_RETURN_IF_ERROR(CheckIds(kName, word, vocab));
  }
  return {};
}

// Some token must be left: in `allowed` (all of the vocabulary if empty) and not banned.
Status CheckSomethingIsAllowed(const SamplingParams& p, int64_t vocab) {
  const std::set<int32_t> banned = TokensBannedAlways(p);
  if (vocab == 0 || banned.empty()) return {};
  const bool all = p.allowed_ids.empty() ? static_cast<int64_t>(banned.size()) >= vocab
                                         : std::all_of(p.allowed_ids.begin(), p.allowed_ids.end(),
                                                       [&banned](int32_t id) { return banned.count(id) > 0; });
  if (!all) return {};
  return MakeError(ErrorCode::kInvalidArgument, p.banned_ids.empty() ? "bad_words" : "banned_ids",
                   "leave no token that may be chosen");
}

}  // namespace

Status CheckIds(const char* parameter, const std::vector<int32_t>& ids, int64_t vocab) {
  const int64_t end = vocab > 0 ? vocab : std::numeric_limits<int32_t>::max();
  for (const int32_t id : ids) {
    if (id >= 0 && id < end) continue;
    return MakeError(ErrorCode::kInvalidArgument, parameter, "token id {} is not in [0, {})", id, end);
  }
  return {};
}

Status Validate(const SamplingParams& p, int64_t vocab) {
  DI_RETURN_IF_ERROR(
      Check(std::isfinite(p.temperature) && p.temperature >= 0, "temperature", "a number >= 0", p.temperature));
  DI_RETURN_IF_ERROR(CheckRange(p.top_p, 0, 1, "top_p"));
  DI_RETURN_IF_ERROR(CheckRange(p.min_p, 0, 1, "min_p"));
  DI_RETURN_IF_ERROR(Check(p.typical_p > 0 && p.typical_p <= 1, "typical_p", "in (0, 1] (1: off)", p.typical_p));
  DI_RETURN_IF_ERROR(Check(p.top_k >= 0, "top_k", ">= 0 (0: off)", p.top_k));
  DI_RETURN_IF_ERROR(CheckRange(p.xtc_probability, 0, 1, "xtc_probability"));
  DI_RETURN_IF_ERROR(Check(p.xtc_threshold > 0 && p.xtc_threshold <= 1, "xtc_threshold", "in (0, 1]", p.xtc_threshold));
  DI_RETURN_IF_ERROR(CheckPenalties(p));
  DI_RETURN_IF_ERROR(Check(p.max_tokens >= 0 || p.max_tokens == -1, "max_tokens", ">= 1", p.max_tokens));
  const bool reachable = p.max_tokens < 0 || p.min_tokens <= p.max_tokens;
  DI_RETURN_IF_ERROR(Check(p.min_tokens >= 0 && reachable, "min_tokens", "in [0, max_tokens]", p.min_tokens));
  DI_RETURN_IF_ERROR(CheckRange(p.logprobs, -1, models::kMaxTopLogprobs, "logprobs"));
  DI_RETURN_IF_ERROR(CheckLogitBias(p.logit_bias, vocab));
  DI_RETURN_IF_ERROR(CheckIds("dry_breaker_ids", p.dry_breaker_ids, vocab));
  DI_RETURN_IF_ERROR(CheckIds("allowed_ids", p.allowed_ids, vocab));
  DI_RETURN_IF_ERROR(CheckIds("banned_ids", p.banned_ids, vocab));
  DI_RETURN_IF_ERROR(CheckBadWords(p.bad_words, vocab));
  return CheckSomethingIsAllowed(p, vocab);
}

std::set<int32_t> TokensBannedAlways(const SamplingParams& params) {
  std::set<int32_t> banned(params.banned_ids.begin(), params.banned_ids.end());
  for (const std::vector<int32_t>& word : params.bad_words) {
    if (word.size() == 1) banned.insert(word.front());
  }
  return banned;
}

bool GenerationRequest::depends_on_its_tokens() const {
  const SamplingParams& p = params;
  return grammar != nullptr || p.min_tokens > 0 || p.repetition_penalty != 1 || p.presence_penalty != 0 ||
         p.frequency_penalty != 0 || p.dry_multiplier > 0 ||
         std::any_of(p.bad_words.begin(), p.bad_words.end(), [](const auto& word) { return word.size() > 1; });
}

Status Validate(const GenerationRequest& request, int64_t vocab) {
  DI_RETURN_IF_ERROR(Validate(request.params, vocab));
  DI_RETURN_IF_ERROR(CheckRange(request.prompt_logprobs, -1, models::kMaxTopLogprobs, "prompt_logprobs"));
  DI_RETURN_IF_ERROR(Check(request.n >= 1 && request.n <= kMaxChoices, "n", "1 to 128", request.n));
  return Check(request.n == 1 || request.params.max_tokens != 0, "n", "1 where max_tokens is 0", request.n);
}

const char* ToString(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kDeadline:
      return "deadline";
    case FinishReason::kError:
      return "error";
  }
  return "?";
}

}  // namespace deepinfer::engine
