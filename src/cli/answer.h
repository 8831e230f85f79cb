// One answer while it is made: keeps the tokens and the times, streams text to stdout if asked to. One object per
// request; used by the thread that steps the engine.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/session.h"
#include "engine/request.h"
#include "engine/text_stream.h"

namespace deepinfer::cli {

class Answer : public engine::RequestObserver {
 public:
  using Clock = std::chrono::steady_clock;

  // streamed: text goes to stdout as it becomes certain. Without a tokenizer there is no text.
  static Result<std::unique_ptr<Answer>> Create(const Session& session, std::vector<std::string> stops, bool streamed);

  // Submits the request; the clock starts here.
  Status Submit(engine::GenerationRequest request, engine::Engine* engine);

  bool OnToken(const engine::TokenEvent& event) override;
  void OnPromptLogprob(int64_t position, const engine::TokenEvent& event) override;
  void OnFinish(const engine::FinishEvent& event) override;

  int64_t id() const { return id_; }
  bool has_text() const { return stream_.has_value(); }
  std::string text() const { return stream_ ? stream_->text() : ""; }
  std::vector<int32_t> ids() const;
  engine::FinishReason reason() const { return reason_; }
  const std::optional<Error>& error() const { return error_; }
  const Status& written() const { return written_; }  // of the stream

  double ttft_ms() const;
  double prefill_tok_s() const;
  double decode_tok_s() const;
  Json ToJson(const Session& session) const;
  std::string Summary(const Session& session) const;

 private:
  void Show(const std::string& piece);
  Json Logprobs() const;
  Json PromptLogprobs() const;

  std::vector<int32_t> prompt_;
  bool want_logprobs_ = false;
  bool want_prompt_logprobs_ = false;
  std::vector<engine::TokenEvent> prompt_events_;  // from the second token on
  std::optional<engine::TextStream> stream_;
  bool streamed_ = false;
  int64_t id_ = 0;
  std::vector<engine::TokenEvent> events_;
  engine::FinishReason reason_ = engine::FinishReason::kError;
  std::optional<Error> error_;
  Status written_;
  Clock::time_point start_, first_, last_;
};

// Steps the engine until nothing is left to do. A Ctrl-C cancels every request in `ids`.
Status RunRequests(engine::Engine* engine, const std::vector<int64_t>& ids, const Interrupt& interrupt);

}  // namespace deepinfer::cli
