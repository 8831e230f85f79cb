// A request of known work, for measuring: a fixed prompt, greedy, always of its full length. Keeps the times of its
// tokens. Used by the thread that steps the engine, which it must outlive.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/session.h"
#include "engine/request.h"

namespace deepinfer::cli {

class TimedRequest : public engine::RequestObserver {
 public:
  using Clock = std::chrono::steady_clock;

  // The clock starts here. prompt: tokens of FixedPrompt(.., first); salt: requests of other salts share nothing with
  // it.
  Status Submit(Session* session, int64_t prompt, int64_t first, int64_t tokens, std::string salt);

  bool OnToken(const engine::TokenEvent& event) override;
  void OnFinish(const engine::FinishEvent& event) override;

  Clock::time_point start;
  std::vector<Clock::time_point> times;  // of its tokens
  std::optional<Error> error;
};

}  // namespace deepinfer::cli
