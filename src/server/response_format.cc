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

double JsonLogprob(float logprob) {
  return std::max(static_cast<double>(logprob), -9999.0);
}

}  // namespace deepinfer::server
