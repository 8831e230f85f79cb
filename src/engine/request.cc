#include "engine/request.h"

#include <cmath>

#include "models/step.h"

namespace deepinfer::engine {
namespace {

constexpr int32_t kMaxChoices = 128;

template <class T>
Status Check(bool ok, const char* parameter, const char* rule, const T& value) {
  if (ok) return {};
  return MakeError(ErrorCode::kInvalidArgument, parameter, "must be {}, got {}", rule, value);
}

}  // namespace

Status Validate(const SamplingParams& p) {
  DI_RETURN_IF_ERROR(
      Check(std::isfinite(p.temperature) && p.temperature >= 0, "temperature", "a number >= 0", p.temperature));
  DI_RETURN_IF_ERROR(Check(p.top_p >= 0 && p.top_p <= 1, "top_p", "in [0, 1]", p.top_p));
  DI_RETURN_IF_ERROR(Check(p.min_p >= 0 && p.min_p <= 1, "min_p", "in [0, 1]", p.min_p));
  DI_RETURN_IF_ERROR(Check(p.top_k >= 0, "top_k", ">= 0 (0: off)", p.top_k));
  DI_RETURN_IF_ERROR(Check(p.max_tokens >= 0 || p.max_tokens == -1, "max_tokens", ">= 1", p.max_tokens));
  return Check(p.logprobs >= -1 && p.logprobs <= models::kMaxTopLogprobs, "logprobs", "0 to 20", p.logprobs);
}

Status Validate(const GenerationRequest& request) {
  DI_RETURN_IF_ERROR(Validate(request.params));
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
