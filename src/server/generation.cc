#include "server/generation.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "base/random.h"

namespace deepinfer::server {
namespace {

constexpr size_t kEnoughForOneChunk = 64 << 10;

std::string Event(const Json& json) {
  return "data: " + Dump(json) + "\n\n";
}

// What an answer that the engine broke off looks like to its client.
ApiError ErrorOf(const engine::FinishEvent& event) {
  if (event.error) return InWordsOfApi(*event.error);
  if (event.reason == engine::FinishReason::kDeadline) {
    return ApiError(504, "deadline_exceeded", "", "the request's deadline passed");
  }
  ApiError error(503, "server_unavailable", "", "the server is shutting down");
  error.retry_after_s = 5;
  return error;
}

bool IsAnswer(engine::FinishReason reason) {
  return reason == engine::FinishReason::kStop || reason == engine::FinishReason::kLength;
}

}  // namespace

// Between the engine's thread, which fills it, and the connection.
class Generation::Mailbox {
 public:
  Mailbox(size_t choices, bool streamed) : choices_(choices), streamed_(streamed) {}

  void SetWake(std::function<void()> wake) {
    const std::lock_guard lock(mutex_);
    wake_ = wake ? std::make_shared<std::function<void()>>(std::move(wake)) : nullptr;
  }

  void Put(size_t choice, ChoiceDelta delta) {
    std::shared_ptr<std::function<void()>> wake;
    {
      const std::lock_guard lock(mutex_);
      const bool finished = delta.finish.has_value();
      choices_[choice].Append(std::move(delta));
      if (streamed_ || finished) wake = wake_;
    }
    if (wake) (*wake)();  // outside: it may destroy what set it
  }

  // The next choice, in a circle, of which something came.
  std::optional<std::pair<size_t, ChoiceDelta>> Take() {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < choices_.size(); ++i) {
      const size_t at = (next_ + i) % choices_.size();
      if (choices_[at].empty()) continue;
      next_ = at + 1;
      return std::pair(at, std::exchange(choices_[at], {}));
    }
    return std::nullopt;
  }

 private:
  std::mutex mutex_;
  std::vector<ChoiceDelta> choices_;
  const bool streamed_;
  size_t next_ = 0;
  std::shared_ptr<std::function<void()>> wake_;
};

// What the engine tells about one prompt.
class Generation::Listener final : public engine::RequestObserver {
 public:
  Listener(std::shared_ptr<Mailbox> mailbox, size_t first, std::vector<Choice> choices, int32_t first_token,
           const text::Tokenizer* tokenizer, Metrics* metrics)
      : mailbox_(std::move(mailbox)),
        first_(first),
        choices_(std::move(choices)),
        last_(choices_.size()),
        begun_(choices_.size()),
        metrics_(metrics),
        tokenizer_(tokenizer) {
    AddPromptEntry({first_token, std::nullopt, 0, {}, ""});
  }

  // The choices begin with their prompt, where its tokens have `logprobs` of the best ones (-1: none at all).
  void EchoPrompt(const std::string& text, int32_t logprobs) {
    echo_ = text;
    echo_logprobs_ = logprobs;
  }
  // They report what the model made of their prompt.
  void ReportPrompt() { reports_prompt_ = true; }

  bool OnToken(const engine::TokenEvent& event) override {
    const auto now = engine::Clock::now();
    if (last_[event.choice] != engine::Clock::time_point()) {
      metrics_->OnTokenGap(std::chrono::duration<double>(now - last_[event.choice]).count());
    }
    last_[event.choice] = now;
    ChoiceDelta delta = Begin(event.choice);
    const bool goes_on = choices_[event.choice].Push(event, &delta);
    mailbox_->Put(first_ + event.choice, std::move(delta));
    return goes_on;
  }

  void OnPromptLogprob(int64_t /*position*/, const engine::TokenEvent& event) override {
    AddPromptEntry({event.id, event.logprob, event.rank, event.top, ""});
  }

  void OnFinish(const engine::FinishEvent& event) override {
    metrics_->OnFinish(event);
    // An error that concerns the request may come for its first choice only.
    for (size_t choice = event.choice; choice < choices_.size(); ++choice) {
      if (!ended_.insert(choice).second) continue;
      ChoiceDelta delta = Begin(choice);
      choices_[choice].Finish(event, &delta);
      mailbox_->Put(first_ + choice, std::move(delta));
      if (!event.last || IsAnswer(event.reason)) break;
    }
  }

 private:
  ChoiceDelta Begin(size_t choice) {
    ChoiceDelta delta;
    if (begun_[choice]) return delta;
    begun_[choice] = true;
    delta.text = echo_;
    if (echo_logprobs_ >= 0) {
      delta.logprobs = *prompt_;
      const auto most = static_cast<size_t>(echo_logprobs_);
      for (LogprobEntry& entry : delta.logprobs) entry.top.resize(std::min(entry.top.size(), most));
    }
    if (reports_prompt_) delta.prompt = prompt_;
    return delta;
  }

  void AddPromptEntry(LogprobEntry entry) {
    if (tokenizer_ != nullptr) entry.bytes = tokenizer_->TokenBytes(entry.id);
    prompt_->push_back(std::move(entry));
  }

  std::shared_ptr<Mailbox> mailbox_;
  size_t first_;
  std::vector<Choice> choices_;
  std::vector<engine::Clock::time_point> last_;
  std::vector<bool> begun_;
  std::set<size_t> ended_;
  Metrics* metrics_;
  const text::Tokenizer* tokenizer_;
  std::string echo_;
  int32_t echo_logprobs_ = -1;
  bool reports_prompt_ = false;
  // Of the tokens that were scored. Complete when the first choice begins, and not touched after that.
  std::shared_ptr<std::vector<LogprobEntry>> prompt_ = std::make_shared<std::vector<LogprobEntry>>();
};

Generation::Generation(ApiRequest request, size_t prompts, const ServedModel& model)
    : request_(std::move(request)),
      model_(model),
      whole_(prompts * static_cast<size_t>(request_.n)),
      unfinished_(whole_.size()) {
  mailbox_ = std::make_shared<Mailbox>(whole_.size(), request_.stream);
}

ApiResult<std::unique_ptr<PendingResponse>> Generation::Create(ApiRequest request, const std::string& id,
                                                               const ServedModel& model, Metrics* metrics) {
  if (!request.seed) request.seed = static_cast<int64_t>(RandomSeed());
  DI_ASSIGN_OR_RETURN(std::vector<Prompt> prompts, EncodePrompts(request, model));
  DI_ASSIGN_OR_RETURN(std::shared_ptr<const TokenGrammar> grammar, CompileGrammar(request, model));
  DI_ASSIGN_OR_RETURN(std::vector<engine::CheckedRequest> checked,
                      ToEngineRequests(request, model, std::move(grammar), prompts));
  auto generation = std::unique_ptr<Generation>(new Generation(std::move(request), prompts.size(), model));
  const ApiRequest& asked = generation->request_;
  const auto n = static_cast<size_t>(asked.n);
  for (size_t i = 0; i < prompts.size(); ++i) {
    std::vector<Choice> choices;
    for (size_t k = 0; k < n; ++k) {
      DI_ASSIGN_OR_RETURN(Choice choice, Choice::Create({model.tokenizer, asked.stop, checked[i].request().stop_ids,
                                                         asked.stop_token_ids, asked.params.logprobs >= 0}));
      choices.push_back(std::move(choice));
    }
    auto listener = std::make_shared<Listener>(generation->mailbox_, i * n, std::move(choices), prompts[i].ids.front(),
                                               model.tokenizer, metrics);
    if (asked.echo) listener->EchoPrompt(prompts[i].text, asked.params.logprobs);
    if (asked.prompt_logprobs >= 0) listener->ReportPrompt();
    generation->parts_.push_back({std::move(checked[i]), std::move(listener)});
  }
  generation->format_ = asked.endpoint == Endpoint::kChat ? ChatFormat(id, asked, model)
                                                          : CompletionFormat(id, asked, model, std::move(prompts));
  return generation;
}

Generation::~Generation() {
  mailbox_->SetWake(nullptr);
  CancelAll();
}

void Generation::CancelAll() {
  for (Part& part : parts_) {
    if (part.id != 0) model_.engine->Cancel(std::exchange(part.id, 0));
  }
}

void Generation::Start(std::function<void()> wake) {
  mailbox_->SetWake(std::move(wake));
  for (Part& part : parts_) {
    const Result<int64_t> id = model_.engine->Submit(std::move(part.request), part.listener);
    if (!id) {
      refused_ = ApiError(id.error());
      return CancelAll();
    }
    part.id = *id;
  }
}

PendingResponse::Piece Generation::Next() {
  if (refused_) return refused_->ToResponse();
  if (!request_.stream) return NextWhole();
  switch (state_) {
    case State::kOpening:
      state_ = State::kRunning;
      return Head{"text/event-stream; charset=utf-8", {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}};
    case State::kRunning:
      return NextEvents();
    case State::kEnding:
      state_ = State::kEnded;
      break;
    case State::kEnded:
      return Nothing{};
  }
  return End{};
}

PendingResponse::Piece Generation::Fail(const ApiError& error) {
  CancelAll();
  state_ = State::kEnding;
  if (!request_.stream) return error.ToResponse();
  return Chunk{Event(error.ToJson())};
}

void Generation::Count(const engine::FinishEvent& event) {
  --unfinished_;
  usage_.completion_tokens += event.generated_tokens;
  if (event.choice != 0) return;  // the prompt is the choices' common one
  usage_.prompt_tokens += event.prompt_tokens;
  usage_.cached_tokens += event.cached_tokens;
}

PendingResponse::Piece Generation::NextEvents() {
  std::string data;
  for (; opened_ < whole_.size(); ++opened_) {
    const Json opening = format_->Opening(opened_);
    if (!opening.is_null()) data += Event(opening);
  }
  while (auto taken = mailbox_->Take()) {
    auto& [index, delta] = *taken;
    if (delta.finish && !IsAnswer(delta.finish->reason)) {
      const ApiError error = ErrorOf(*std::exchange(delta.finish, std::nullopt));
      if (!delta.text.empty() || !delta.logprobs.empty()) data += Event(format_->Chunk(index, delta));
      Piece failed = Fail(error);
      std::get<Chunk>(failed).data.insert(0, data);
      return failed;
    }
    if (delta.finish) Count(*delta.finish);
    // Tokens whose text is held back: nothing to send yet.
    if (!delta.finish && delta.text.empty() && delta.logprobs.empty() && !request_.return_token_ids) continue;
    data += Event(format_->Chunk(index, delta));
    if (data.size() >= kEnoughForOneChunk) break;
  }
  if (unfinished_ == 0) {
    if (request_.include_usage) data += Event(format_->UsageChunk(usage_));
    data += "data: [DONE]\n\n";
    state_ = State::kEnding;
  }
  if (data.empty()) return Nothing{};
  return Chunk{std::move(data)};
}

PendingResponse::Piece Generation::NextWhole() {
  if (state_ == State::kEnding) return Nothing{};
  while (auto taken = mailbox_->Take()) {
    auto& [index, delta] = *taken;
    if (delta.finish && !IsAnswer(delta.finish->reason)) return Fail(ErrorOf(*delta.finish));
    if (delta.finish) Count(*delta.finish);
    whole_[index].Append(std::move(delta));
  }
  if (unfinished_ > 0) return Nothing{};
  state_ = State::kEnding;
  return JsonResponse(format_->Whole(whole_, usage_));
}

}  // namespace deepinfer::server
