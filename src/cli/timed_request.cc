#include "cli/timed_request.h"

#include "cli/prompt_flags.h"

namespace deepinfer::cli {

Status TimedRequest::Submit(Session* session, int64_t prompt, int64_t first, int64_t tokens, std::string salt) {
  engine::GenerationRequest request;
  request.prompt = FixedPrompt(prompt, session->runner->model().info().vocab_size, first);
  request.params.temperature = 0;
  request.params.max_tokens = tokens;
  request.params.ignore_eos = true;
  request.cache_salt = std::move(salt);
  start = Clock::now();
  DI_RETURN_IF_ERROR(session->engine->Add(std::move(request), this));
  return {};
}

bool TimedRequest::OnToken(const engine::TokenEvent& /*event*/) {
  times.push_back(Clock::now());
  return true;
}

void TimedRequest::OnFinish(const engine::FinishEvent& event) {
  error = event.error;
}

}  // namespace deepinfer::cli
