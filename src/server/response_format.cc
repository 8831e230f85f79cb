#include "server/response_format.h"

#include <algorithm>
#include <ctime>

namespace deepinfer::server {

Json Usage::ToJson() const {
  return {{"prompt_tokens", prompt_tokens},
          {"completion_tokens", completion_tokens},
          {"total_tokens", prompt_tokens + completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", cached_tokens}}}};
}

ResponseFormat::ResponseFormat(std::string id, const ApiRequest& request, const ServedModel& model)
    : tokenizer_(model.tokenizer),
      logprobs_(request.params.logprobs >= 0),
      token_ids_(request.return_token_ids),
      usage_in_chunks_(request.include_usage),
      id_(std::move(id)),
      model_(request.model.empty() ? model.name : request.model),
      prompt_logprobs_(request.prompt_logprobs),
      created_(static_cast<int64_t>(std::time(nullptr))) {}

Json ResponseFormat::Envelope(const char* object, Json choices) const {
  return {{"id", id_}, {"object", object}, {"created", created_}, {"model", model_}, {"choices", std::move(choices)}};
}

Json ResponseFormat::UsageChunk(const Usage& usage) {
  Json json = Envelope(ChunkObject(), Json::array());
  json["usage"] = usage.ToJson();
  return json;
}

std::string ResponseFormat::TokenText(int32_t id) const {
  return tokenizer_ != nullptr ? tokenizer_->TokenBytes(id) : "";
}

Json ResponseFormat::FinishReasonOf(const ChoiceDelta& delta) {
  return delta.finish ? Json(engine::ToString(delta.finish->reason)) : Json();
}

void ResponseFormat::AddExtras(const ChoiceDelta& delta, Json* choice) const {
  if (delta.finish) (*choice)["stop_reason"] = delta.stop_reason;
  if (token_ids_) (*choice)["token_ids"] = delta.ids;
}

Json ResponseFormat::TokenReport(int32_t id, float logprob, int64_t rank) const {
  return {{"logprob", JsonLogprob(logprob)},
          {"rank", rank},
          {"decoded_token", tokenizer_ != nullptr ? Json(TokenText(id)) : Json()}};
}

Json ResponseFormat::PromptLogprobs(const std::vector<LogprobEntry>& prompt) const {
  Json list = Json::array();
  for (const LogprobEntry& entry : prompt) {
    Json& report = list.emplace_back(nullptr);
    if (!entry.logprob) continue;
    report[std::to_string(entry.id)] = TokenReport(entry.id, *entry.logprob, entry.rank);
    const size_t best = std::min(entry.top.size(), static_cast<size_t>(prompt_logprobs_));
    for (size_t i = 0; i < best; ++i) {
      if (entry.top[i].id == entry.id) continue;
      report[std::to_string(entry.top[i].id)] =
          TokenReport(entry.top[i].id, entry.top[i].logprob, static_cast<int64_t>(i) + 1);
    }
  }
  return list;
}

double JsonLogprob(float logprob) {
  return std::max(static_cast<double>(logprob), -9999.0);
}

}  // namespace deepinfer::server
