#include "cli/answer.h"

#include "cli/clock.h"

namespace deepinfer::cli {
namespace {

Json LogprobOf(const engine::TokenEvent& event) {
  Json top = Json::array();
  for (const engine::TokenLogprob& each : event.top) top.push_back({{"id", each.id}, {"logprob", each.logprob}});
  return {{"id", event.id}, {"logprob", event.logprob}, {"top", std::move(top)}};
}

}  // namespace

Result<std::unique_ptr<Answer>> Answer::Create(const Session& session, std::vector<std::string> stops, bool streamed) {
  auto answer = std::make_unique<Answer>();
  answer->streamed_ = streamed;
  if (session.tokenizer) {
    DI_ASSIGN_OR_RETURN(answer->stream_, engine::TextStream::Create(&*session.tokenizer, std::move(stops)));
  }
  return answer;
}

Status Answer::Submit(engine::GenerationRequest request, engine::Engine* engine) {
  prompt_ = request.prompt;
  want_logprobs_ = request.params.logprobs >= 0;
  want_prompt_logprobs_ = request.prompt_logprobs >= 0;
  start_ = first_ = last_ = Clock::now();
  DI_ASSIGN_OR_RETURN(id_, engine->Add(std::move(request), this));
  return {};
}

bool Answer::OnToken(const engine::TokenEvent& event) {
  last_ = Clock::now();
  if (events_.empty()) first_ = last_;
  events_.push_back(event);
  if (!stream_) return true;
  Show(stream_->Push(event.id));
  return !stream_->stopped() && written_.has_value();
}

void Answer::OnFinish(const engine::FinishEvent& event) {
  reason_ = event.reason;
  error_ = event.error;
  if (stream_) Show(stream_->Finish());
}

void Answer::Show(const std::string& piece) {
  if (streamed_ && !piece.empty() && written_.has_value()) written_ = WriteOut(piece);
}

std::vector<int32_t> Answer::ids() const {
  std::vector<int32_t> ids;
  for (const engine::TokenEvent& event : events_) ids.push_back(event.id);
  return ids;
}

double Answer::ttft_ms() const {
  return Ms(first_ - start_);
}

double Answer::prefill_tok_s() const {
  return ttft_ms() > 0 ? static_cast<double>(prompt_.size()) * 1000 / ttft_ms() : 0;
}

double Answer::decode_tok_s() const {
  const double ms = Ms(last_ - first_);
  return ms > 0 ? static_cast<double>(events_.size() - 1) * 1000 / ms : 0;
}

void Answer::OnPromptLogprob(int64_t /*position*/, const engine::TokenEvent& event) {
  prompt_events_.push_back(event);
}

Json Answer::Logprobs() const {
  if (!want_logprobs_) return nullptr;
  Json list = Json::array();
  for (const engine::TokenEvent& event : events_) list.push_back(LogprobOf(event));
  return list;
}

// Nothing comes before the first token.
Json Answer::PromptLogprobs() const {
  if (!want_prompt_logprobs_) return nullptr;
  Json list = Json::array({nullptr});
  for (const engine::TokenEvent& event : prompt_events_) list.push_back(LogprobOf(event));
  return list;
}

Json Answer::ToJson(const Session& session) const {
  Json json;
  json["prompt_ids"] = prompt_;
  json["ids"] = ids();
  json["text"] = stream_ ? Json(stream_->text()) : Json();
  json["finish_reason"] = ToString(reason_);
  json["logprobs"] = Logprobs();
  json["prompt_logprobs"] = PromptLogprobs();
  json["timings"] = {{"load_ms", session.load_ms},
                     {"compile_ms", session.compile_ms},
                     {"ttft_ms", ttft_ms()},
                     {"prefill_tok_s", prefill_tok_s()},
                     {"decode_tok_s", decode_tok_s()}};
  json["compiles_after_ready"] = session.runner->cache().compiles_after_ready();
  if (error_) json["error"] = error_->ToString();
  return json;
}

std::string Answer::Summary(const Session& session) const {
  return fmt::format(
      "load {:.0f} ms, compile {:.0f} ms, first token {:.0f} ms, prefill {:.0f} tok/s, decode {:.1f} tok/s ({} tokens, "
      "{})",
      session.load_ms, session.compile_ms, ttft_ms(), prefill_tok_s(), decode_tok_s(), events_.size(),
      ToString(reason_));
}

Status RunRequests(engine::Engine* engine, const std::vector<int64_t>& ids, const Interrupt& interrupt) {
  bool cancelled = false;
  while (engine->HasWork()) {
    if (interrupt.count() > 0 && !cancelled) {
      cancelled = true;
      for (const int64_t id : ids) engine->Cancel(id);
    }
    DI_RETURN_IF_ERROR(engine->Step());
  }
  return {};
}

}  // namespace deepinfer::cli
