// /tokenize, /detokenize and /apply-template: the text layer without the model, in vLLM's and llama.cpp's shapes.
#include "server/api.h"
#include "server/json_values.h"
#include "text/utf8_detokenizer.h"

namespace deepinfer::server {
namespace {

struct TextRequest {
  std::string model;
  std::optional<std::string> prompt;
  std::optional<text::ChatInput> chat;
  bool add_special_tokens = true;
  bool return_token_strs = false;
};

ApiResult<const text::Tokenizer*> TokenizerOf(const ServedModel& model) {
  if (model.tokenizer != nullptr) return model.tokenizer;
  return tl::unexpected(ApiError(400, "no_tokenizer", "", "the model has no tokenizer"));
}

ApiError MissingField(const std::string& name) {
  return ApiError(400, "missing_required_parameter", name, name + ": is missing");
}

ApiStatus ReadField(const std::string& name, const Json& value, TextRequest* out) {
  if (name == "model") return Read(value, name, &out->model);
  if (name == "prompt" || name == "content") return Read(value, "prompt", &out->prompt.emplace());
  if (name == "add_special_tokens") return Read(value, name, &out->add_special_tokens);
  if (name == "return_token_strs") return Read(value, name, &out->return_token_strs);
  if (name == "messages") {
    if (!out->chat) out->chat.emplace();
    DI_ASSIGN_OR_RETURN(out->chat->messages, ParseMessages(value));
    return {};
  }
  if (name == "add_generation_prompt") {
    if (!out->chat) out->chat.emplace();
    return Read(value, name, &out->chat->add_generation_prompt);
  }
  if (name == "chat_template_kwargs") {
    if (!out->chat) out->chat.emplace();
    out->chat->kwargs = value;
    return RequireObject(value, name);
  }
  return tl::unexpected(ApiError(400, "unknown_parameter", name, name + ": is not a known parameter"));
}

ApiResult<TextRequest> ParseTextRequest(const std::string& body) {
  DI_ASSIGN_OR_RETURN(const Json json, ParseBody(body));
  TextRequest request;
  for (const auto& [name, value] : json.items()) {
    if (!value.is_null()) DI_RETURN_IF_ERROR(ReadField(name, value, &request));
  }
  if (request.chat && !json.contains("messages")) return tl::unexpected(MissingField("messages"));
  if (request.chat && request.prompt) return InvalidValue("prompt", "goes not together with \"messages\"");
  return request;
}

ApiError ChatError(const Error& error) {
  ApiError refusal(error);
  refusal.status = 400;
  refusal.retry_after_s = 0;
  refusal.code = error.code == ErrorCode::kFailedPrecondition ? "no_chat_template" : "chat_template_error";
  refusal.param = "messages";
  return refusal;
}

}  // namespace

ApiResult<Answer> Api::Tokenize(const HttpRequest& request) const {
  DI_ASSIGN_OR_RETURN(const ServedModel* model, Model());
  DI_ASSIGN_OR_RETURN(const text::Tokenizer* tokenizer, TokenizerOf(*model));
  DI_ASSIGN_OR_RETURN(const TextRequest asked, ParseTextRequest(request.body));
  DI_RETURN_IF_ERROR(CheckModelName(asked.model));
  if (!asked.chat && !asked.prompt) return tl::unexpected(MissingField("prompt"));
  const Result<std::vector<int32_t>> ids =
      asked.chat ? tokenizer->EncodeChat(*asked.chat)
                 : tokenizer->Encode(*asked.prompt, {.parse_special = true, .add_special = asked.add_special_tokens});
  if (!ids) return tl::unexpected(asked.chat ? ChatError(ids.error()) : ApiError(ids.error()));
  Json strings = nullptr;
  if (asked.return_token_strs) {
    strings = Json::array();
    for (const int32_t id : *ids) strings.push_back(text::ReplaceInvalidUtf8(tokenizer->TokenBytes(id)));
  }
  return JsonResponse(
      {{"count", ids->size()}, {"max_model_len", model->context}, {"tokens", *ids}, {"token_strs", strings}});
}

ApiResult<Answer> Api::Detokenize(const HttpRequest& request) const {
  DI_ASSIGN_OR_RETURN(const ServedModel* model, Model());
  DI_ASSIGN_OR_RETURN(const text::Tokenizer* tokenizer, TokenizerOf(*model));
  DI_ASSIGN_OR_RETURN(const Json body, ParseBody(request.body));
  std::string name;
  std::optional<std::vector<int32_t>> ids;
  for (const auto& [key, value] : body.items()) {
    if (key == "model") {
      if (!value.is_null()) DI_RETURN_IF_ERROR(Read(value, key, &name));
    } else if (key == "tokens") {
      DI_RETURN_IF_ERROR(Read(value, key, &ids.emplace()));
    } else {
      return tl::unexpected(ApiError(400, "unknown_parameter", key, key + ": is not a known parameter"));
    }
  }
  DI_RETURN_IF_ERROR(CheckModelName(name));
  if (!ids) return tl::unexpected(MissingField("tokens"));
  for (size_t i = 0; i < ids->size(); ++i) {
    if ((*ids)[i] >= tokenizer->vocab_size()) {
      return InvalidValue(fmt::format("tokens[{}]", i),
                          fmt::format("{} is not in [0, {})", (*ids)[i], tokenizer->vocab_size()));
    }
  }
  return JsonResponse({{"prompt", tokenizer->Decode(*ids, /*skip_special=*/false)}});
}

ApiResult<Answer> Api::ApplyTemplate(const HttpRequest& request) const {
  DI_ASSIGN_OR_RETURN(const ServedModel* model, Model());
  DI_ASSIGN_OR_RETURN(const text::Tokenizer* tokenizer, TokenizerOf(*model));
  DI_ASSIGN_OR_RETURN(const TextRequest asked, ParseTextRequest(request.body));
  DI_RETURN_IF_ERROR(CheckModelName(asked.model));
  if (!asked.chat) return tl::unexpected(MissingField("messages"));
  const Result<std::string> prompt = tokenizer->RenderChat(*asked.chat);
  if (!prompt) return tl::unexpected(ChatError(prompt.error()));
  return JsonResponse({{"prompt", *prompt}});
}

}  // namespace deepinfer::server
