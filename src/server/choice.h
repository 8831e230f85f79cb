// One choice of an answer while it is made: tokens in, text and log-probabilities that may be sent out. Text comes as
// engine::TextStream lets it out; the entry of a token comes with the text it stands for, so that the joined bytes of
// the entries are the text. The token that ends a choice (end of text, a stop token) has no entry, and no text. One
// object per choice; one thread at a time.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "engine/text_stream.h"
#include "server/api_error.h"
#include "text/tokenizer.h"

namespace deepinfer::server {

struct LogprobEntry {
  int32_t id = 0;
  std::optional<float> logprob;           // none: a prompt's first token
  int64_t rank = 0;                       // of a prompt's token: 1 is the likeliest
  std::vector<engine::TokenLogprob> top;  // best first
  std::string bytes;                      // its part of the text
};

// What came of a choice since it was last asked.
struct ChoiceDelta {
  std::string text;
  std::vector<int32_t> ids;
  std::vector<LogprobEntry> logprobs;
  std::optional<engine::FinishEvent> finish;
  Json stop_reason = nullptr;                               // the stop string or token that ended it
  std::shared_ptr<const std::vector<LogprobEntry>> prompt;  // with the first delta, if prompt_logprobs were asked for

  bool empty() const { return text.empty() && ids.empty() && logprobs.empty() && !finish; }
  void Append(ChoiceDelta more);
};

struct ChoiceOptions {
  const text::Tokenizer* tokenizer = nullptr;  // may be null: no text
  std::vector<std::string> stops;
  std::vector<int32_t> stop_ids;        // all that end it
  std::vector<int32_t> named_stop_ids;  // those the client named: a reason to report
  bool logprobs = false;
};

class Choice {
 public:
  static ApiResult<Choice> Create(ChoiceOptions options);

  // False: a stop string was met.
  bool Push(const engine::TokenEvent& event, ChoiceDelta* out);
  void Finish(const engine::FinishEvent& event, ChoiceDelta* out);

 private:
  struct Held {
    LogprobEntry entry;
    size_t begin = 0;  // of its text
    size_t end = 0;
  };

  explicit Choice(ChoiceOptions options) : options_(std::move(options)) {}
  void Release(bool at_end, ChoiceDelta* out);

  ChoiceOptions options_;
  std::optional<engine::TextStream> stream_;
  std::deque<Held> held_;
};

}  // namespace deepinfer::server
