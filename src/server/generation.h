// The answer to a generation request: one engine request per prompt, their choices collected from the engine's thread
// and handed out as one body or as server-sent events.
//
// What waits for a slow reader is merged, per choice: at most what its request may generate. An error before the first
// byte is a response of its own; after that it is an event, and the stream ends without [DONE].
#pragma once

#include <memory>
#include <vector>

#include "server/choice.h"
#include "server/metrics.h"
#include "server/response_format.h"
#include "server/served_model.h"

namespace deepinfer::server {

class Generation final : public PendingResponse {
 public:
  // Refuses, naming the parameter, what could never run. model and metrics must outlive the answer; id: of the HTTP
  // request.
  static ApiResult<std::unique_ptr<PendingResponse>> Create(ApiRequest request, const std::string& id,
                                                            const ServedModel& model, Metrics* metrics);
  ~Generation() override;

  void Start(std::function<void()> wake) override;
  Piece Next() override;
  // Blank lines, not a comment: clients that strip what they receive glue a comment to the event after it.
  std::string Ping() const override { return "\n\n"; }

 private:
  class Mailbox;
  class Listener;
  struct Part {  // one prompt
    engine::CheckedRequest request;
    std::shared_ptr<Listener> listener;
    int64_t id = 0;
  };
  enum class State { kOpening, kRunning, kEnding, kEnded };

  Generation(ApiRequest request, size_t prompts, const ServedModel& model);
  Piece NextEvents();
  Piece NextWhole();
  Piece Fail(const ApiError& error);
  void Count(const engine::FinishEvent& event);
  void CancelAll();

  ApiRequest request_;
  const ServedModel& model_;
  std::unique_ptr<ResponseFormat> format_;
  std::vector<Part> parts_;
  std::shared_ptr<Mailbox> mailbox_;
  std::vector<ChoiceDelta> whole_;  // of an answer that is not streamed
  std::optional<ApiError> refused_;
  Usage usage_;
  size_t opened_ = 0;      // choices whose first chunk is out
  size_t unfinished_ = 0;  // choices
  State state_ = State::kOpening;
};

}  // namespace deepinfer::server
