// generate: one or more prompts in one batch, streamed as text or printed as JSON lines.
#include <spdlog/spdlog.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "engine/text_stream.h"

namespace deepinfer::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

struct GenerateFlags {
  ModelFlags model;
  std::vector<std::string> prompts;
  std::vector<std::string> prompt_ids;
  bool chat = false;
  std::vector<std::string> stops;
  engine::SamplingParams params;
  bool json = false;
};

double Ms(Clock::duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

// One answer: collects what JSON needs, streams text if it is the only one.
class Answer : public engine::RequestObserver {
 public:
  Answer(std::vector<int32_t> prompt, std::optional<engine::TextStream> stream, bool streamed)
      : prompt_(std::move(prompt)), stream_(std::move(stream)), streamed_(streamed) {}

  bool OnToken(const engine::TokenEvent& event) override {
    last_ = Clock::now();
    if (events_.empty()) first_ = last_;
    events_.push_back(event);
    if (!stream_) return true;
    Show(stream_->Push(event.id));
    return !stream_->stopped();
  }

  void OnFinish(engine::FinishReason reason, const std::optional<Error>& error) override {
    reason_ = reason;
    error_ = error;
    if (stream_) Show(stream_->Finish());
  }

  Json ToJson(const Session& session) const {
    Json json;
    json["prompt_ids"] = prompt_;
    json["ids"] = Ids();
    json["text"] = stream_ ? Json(stream_->text()) : Json();
    json["finish_reason"] = ToString(reason_);
    json["logprobs"] = Logprobs();
    json["timings"] = {{"load_ms", session.load_ms},
                       {"compile_ms", session.compile_ms},
                       {"ttft_ms", Ms(first_ - start_)},
                       {"prefill_tok_s", PrefillSpeed()},
                       {"decode_tok_s", DecodeSpeed()}};
    json["compiles_after_ready"] = session.runner->cache().compiles_after_ready();
    if (error_) json["error"] = error_->ToString();
    return json;
  }

  std::string Summary(const Session& session) const {
    return fmt::format("load {:.0f} ms, compile {:.0f} ms, first token {:.0f} ms, prefill {:.0f} tok/s, decode {:.1f} tok/s ({} tokens, {})",
                       session.load_ms, session.compile_ms, Ms(first_ - start_), PrefillSpeed(), DecodeSpeed(),
                       events_.size(), ToString(reason_));
  }

  void Start() { start_ = first_ = last_ = Clock::now(); }
  const std::optional<Error>& error() const { return error_; }
  std::string text() const { return stream_ ? stream_->text() : fmt::format("{}", fmt::join(Ids(), ",")); }

 private:
  void Show(const std::string& piece) const {
    if (!streamed_ || piece.empty()) return;
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
  }

  std::vector<int32_t> Ids() const {
    std::vector<int32_t> ids;
    for (const engine::TokenEvent& event : events_) ids.push_back(event.id);
    return ids;
  }

  Json Logprobs() const {
    if (!want_logprobs_) return nullptr;
    Json list = Json::array();
    for (const engine::TokenEvent& event : events_) {
      Json top = Json::array();
      for (const engine::TokenLogprob& each : event.top) top.push_back({{"id", each.id}, {"logprob", each.logprob}});
      list.push_back({{"id", event.id}, {"logprob", event.logprob}, {"top", std::move(top)}});
    }
    return list;
  }

  double PrefillSpeed() const {
    const double ms = Ms(first_ - start_);
    return ms > 0 ? static_cast<double>(prompt_.size()) * 1000 / ms : 0;
  }
  double DecodeSpeed() const {
    const double ms = Ms(last_ - first_);
    return ms > 0 ? static_cast<double>(events_.size() - 1) * 1000 / ms : 0;
  }

 public:
  bool want_logprobs_ = false;

 private:
  std::vector<int32_t> prompt_;
  std::optional<engine::TextStream> stream_;
  bool streamed_;
  std::vector<engine::TokenEvent> events_;
  engine::FinishReason reason_ = engine::FinishReason::kError;
  std::optional<Error> error_;
  Clock::time_point start_, first_, last_;
};

Result<std::vector<std::vector<int32_t>>> CollectPrompts(const GenerateFlags& flags, const Session& session) {
  std::vector<std::vector<int32_t>> prompts;
  for (const std::string& text : flags.prompts) {
    DI_ASSIGN_OR_RETURN(std::vector<int32_t> ids, session.EncodePrompt(text, flags.chat));
    prompts.push_back(std::move(ids));
  }
  for (const std::string& text : flags.prompt_ids) {
    DI_ASSIGN_OR_RETURN(std::vector<int32_t> ids, ParseIds("--prompt-ids", text));
    prompts.push_back(std::move(ids));
  }
  if (prompts.empty()) return MakeError(ErrorCode::kInvalidArgument, "--prompt", "give at least one --prompt or --prompt-ids");
  return prompts;
}

Status Print(const GenerateFlags& flags, const Session& session, const std::vector<std::unique_ptr<Answer>>& answers) {
  std::optional<Error> failure;
  for (const auto& answer : answers) {
    if (flags.json) {
      fmt::print("{}\n", answer->ToJson(session).dump(-1, ' ', false, Json::error_handler_t::replace));
    } else if (answers.size() > 1) {
      fmt::print("{}\n", answer->text());
    } else {
      fmt::print("{}\n", session.tokenizer ? "" : answer->text());  // with a tokenizer it was streamed
    }
    if (!flags.json) fmt::print(stderr, "{}\n", answer->Summary(session));
    if (answer->error() && !failure) failure = answer->error();
  }
  std::fflush(stdout);
  if (failure) return tl::unexpected(*failure);
  return {};
}

Status Generate(const GenerateFlags& flags, const BackendFactory& backends) {
  DI_RETURN_IF_ERROR(Validate(flags.params));
  DI_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, OpenSession(flags.model, backends));
  DI_ASSIGN_OR_RETURN(std::vector<std::vector<int32_t>> prompts, CollectPrompts(flags, *session));
  if (!flags.stops.empty()) DI_RETURN_IF_ERROR(session->RequireTokenizer("--stop"));
  std::vector<std::unique_ptr<Answer>> answers;
  for (std::vector<int32_t>& prompt : prompts) {
    std::optional<engine::TextStream> stream;
    if (session->tokenizer) {
      DI_ASSIGN_OR_RETURN(stream, engine::TextStream::Create(&*session->tokenizer, flags.stops));
    }
    answers.push_back(std::make_unique<Answer>(prompt, std::move(stream), !flags.json && prompts.size() == 1));
    answers.back()->want_logprobs_ = flags.params.logprobs >= 0;
    engine::GenerationRequest request;
    request.prompt = std::move(prompt);
    request.params = flags.params;
    request.stop_ids = session->stop_ids;
    answers.back()->Start();
    DI_RETURN_IF_ERROR(session->engine->Add(std::move(request), answers.back().get()));
  }
  DI_RETURN_IF_ERROR(session->engine->RunUntilIdle());
  DI_RETURN_IF_ERROR(Print(flags, *session, answers));
  return session->runner->backend().Persist();
}

}  // namespace

Result<std::vector<int32_t>> ParseIds(const std::string& flag, const std::string& text) {
  std::vector<int32_t> ids;
  size_t at = 0;
  while (at <= text.size()) {
    const size_t comma = std::min(text.find(',', at), text.size());
    std::string_view part = std::string_view(text).substr(at, comma - at);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    int32_t id = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), id);
    if (error != std::errc() || end != part.data() + part.size()) {
      return MakeError(ErrorCode::kInvalidArgument, flag, "'{}' is not a token id (expected 1,2,3)", std::string(part));
    }
    ids.push_back(id);
    at = comma + 1;
  }
  return ids;
}

void AddGenerate(CLI::App* app, CommandContext* context) {
  auto flags = std::make_shared<GenerateFlags>();
  flags->params.temperature = 0;
  CLI::App* command = app->add_subcommand("generate", "continue prompts");
  AddModelFlags(command, &flags->model);
  command->add_option("--prompt", flags->prompts, "text; repeat for a batch")->allow_extra_args(false);
  command->add_option("--prompt-ids", flags->prompt_ids, "token ids 1,2,3; repeat for a batch")->allow_extra_args(false);
  command->add_flag("--chat", flags->chat, "each prompt is a user's message, rendered by the model's template");
  command->add_option("--max-tokens", flags->params.max_tokens, "default: what the context leaves");
  command->add_option("--temperature", flags->params.temperature, "0: greedy")->capture_default_str();
  command->add_option("--top-p", flags->params.top_p, "1: off")->capture_default_str();
  command->add_option("--top-k", flags->params.top_k, "0: off")->capture_default_str();
  command->add_option("--min-p", flags->params.min_p, "0: off")->capture_default_str();
  command->add_option("--seed", flags->params.seed, "each prompt draws with this seed")->capture_default_str();
  command->add_option("--stop", flags->stops, "end before this text; repeat for several")->allow_extra_args(false);
  command->add_option("--logprobs", flags->params.logprobs, "log-probabilities of the chosen and the N best tokens, 0 to 20");
  command->add_flag("--ignore-eos", flags->params.ignore_eos, "go on after an end-of-text token");
  command->add_flag("--json", flags->json, "one JSON object per prompt and line");
  command->callback([flags, context] { context->status = Generate(*flags, context->backends); });
}

}  // namespace deepinfer::cli
