#include "server/served_model.h"

#include <algorithm>

#include "server/request_id.h"
#include "text/token_search.h"

namespace deepinfer::server {
namespace {

ApiStatus RequireTokenizer(const ServedModel& model, const std::string& param) {
  if (model.tokenizer != nullptr) return {};
  return Unsupported(param, "the model has no tokenizer; send token ids to /v1/completions");
}

ApiResult<Prompt> EncodeChat(const ApiRequest& request, const ServedModel& model) {
  DI_RETURN_IF_ERROR(RequireTokenizer(model, "messages"));
  if (!model.tokenizer->has_chat_template()) {
    return tl::unexpected(ApiError(400, "no_chat_template", "messages",
                                   "messages: the model has no chat template; use /v1/completions, or start the server "
                                   "with --chat-template"));
  }
  Result<std::vector<int32_t>> ids = model.tokenizer->EncodeChat(request.chat);
  if (ids) return Prompt{"", std::move(*ids)};
  ApiError error(ids.error());
  error.param = "messages";
  if (error.status == 400) error.code = "chat_template_error";
  return tl::unexpected(std::move(error));
}

std::string PlaceOf(const ApiRequest& request, size_t index) {
  if (request.endpoint == Endpoint::kChat) return "messages";
  return request.prompts.size() > 1 ? fmt::format("prompt[{}]", index) : "prompt";
}

ApiResult<Prompt> EncodeOne(const ApiRequest& request, const ServedModel& model, size_t index) {
  const std::string place = PlaceOf(request, index);
  Prompt prompt;
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.prompts[index])) {
    prompt.ids = *ids;
    if (request.echo && model.tokenizer != nullptr) prompt.text = model.tokenizer->Decode(*ids, /*skip_special=*/false);
    return prompt;
  }
  DI_RETURN_IF_ERROR(RequireTokenizer(model, place));
  prompt.text = std::get<std::string>(request.prompts[index]);
  Result<std::vector<int32_t>> ids =
      model.tokenizer->Encode(prompt.text, {.parse_special = true, .add_special = request.add_special_tokens});
  if (!ids) {
    ApiError error(ids.error());
    error.param = place;
    return tl::unexpected(std::move(error));
  }
  prompt.ids = std::move(*ids);
  return prompt;
}

ApiResult<std::vector<std::vector<int32_t>>> BadWordTokens(const ApiRequest& request, const ServedModel& model) {
  DI_RETURN_IF_ERROR(RequireTokenizer(model, "bad_words"));
  Result<std::vector<std::vector<int32_t>>> tokens = text::SpellingsOf(*model.tokenizer, request.bad_words);
  if (tokens) return std::move(*tokens);
  return InvalidValue("bad_words" + tokens.error().where, tokens.error().message);
}

// All of an engine request but its prompt and grammar.
ApiResult<engine::GenerationRequest> CommonRequest(const ApiRequest& request, const ServedModel& model) {
  for (size_t i = 0; i < request.stop_token_ids.size(); ++i) {
    if (request.stop_token_ids[i] >= model.vocab) {
      const std::string place = fmt::format("stop_token_ids[{}]", i);
      return InvalidValue(place, fmt::format("{} is not in [0, {})", request.stop_token_ids[i], model.vocab));
    }
  }
  if (!request.stop.empty()) DI_RETURN_IF_ERROR(RequireTokenizer(model, "stop"));
  engine::GenerationRequest out;
  out.params = request.params;
  out.params.seed = static_cast<uint64_t>(request.seed.value_or(0));
  out.n = request.n;
  out.priority = request.priority;
  out.cache_salt = request.cache_salt;
  if (!request.params.ignore_eos) out.stop_ids = model.eos_ids;
  out.stop_ids.insert(out.stop_ids.end(), request.stop_token_ids.begin(), request.stop_token_ids.end());
  out.params.ignore_eos = false;  // what may end the answer is in stop_ids
  if (request.params.dry_multiplier > 0 && model.tokenizer != nullptr) {
    out.params.dry_breaker_ids = text::TokensContaining(*model.tokenizer, request.dry_breakers, model.vocab);
  }
  if (!request.bad_words.empty()) {
    DI_ASSIGN_OR_RETURN(out.params.bad_words, BadWordTokens(request, model));
  }
  out.prompt_logprobs = request.prompt_logprobs;
  // A request for nothing but its prompt still needs something to be computed for.
  if (request.echo && (request.params.logprobs >= 0 || request.max_tokens == 0)) {
    out.prompt_logprobs = std::max({out.prompt_logprobs, request.params.logprobs, 0});
  }
  return out;
}

// The engine's refusal in the words of the API.
ApiError Refusal(const Error& error, const ApiRequest& request, const ServedModel& model, const Prompt& prompt,
                 size_t index) {
  ApiError refusal = InWordsOfApi(error);
  const auto tokens = static_cast<int64_t>(prompt.ids.size());
  const bool too_long = tokens >= model.context && error.where == "prompt";
  const bool no_room =
      error.where == "max_tokens" && request.max_tokens && *request.max_tokens > model.context - tokens;
  if (error.where == "prompt") {
    refusal.param = PlaceOf(request, index);
    refusal.message = fmt::format("{}: {}", refusal.param, error.message);
  }
  if (too_long) {
    refusal.message = fmt::format("{}: has {} tokens, the context is {} and needs room for an answer", refusal.param,
                                  tokens, model.context);
  }
  if (too_long || no_room) {
    refusal.code = "context_length_exceeded";
    refusal.more = {{"n_prompt_tokens", tokens}, {"n_ctx", model.context}};
  }
  return refusal;
}

}  // namespace

ApiResult<std::vector<Prompt>> EncodePrompts(const ApiRequest& request, const ServedModel& model) {
  std::vector<Prompt> prompts;
  if (request.endpoint == Endpoint::kChat) {
    DI_ASSIGN_OR_RETURN(Prompt prompt, EncodeChat(request, model));
    prompts.push_back(std::move(prompt));
    return prompts;
  }
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    DI_ASSIGN_OR_RETURN(Prompt prompt, EncodeOne(request, model, i));
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

ApiResult<std::shared_ptr<const TokenGrammar>> CompileGrammar(const ApiRequest& request, const ServedModel& model) {
  if (!request.grammar) return nullptr;
  const std::string& param = request.grammar->param;
  if (model.grammars == nullptr) return Unsupported(param, "the model's tokenizer cannot constrain its output");
  Result<std::shared_ptr<const TokenGrammar>> grammar = model.grammars->Compile(request.grammar->spec);
  if (grammar) return std::move(*grammar);
  ApiError error(grammar.error());
  error.param = param;
  error.message = fmt::format("{}: {}", param, grammar.error().ToString());
  if (error.status == 429) error = ApiError(400, "invalid_value", param, error.message);  // too large a grammar
  return tl::unexpected(std::move(error));
}

ApiResult<std::vector<engine::CheckedRequest>> ToEngineRequests(const ApiRequest& request, const ServedModel& model,
                                                                std::shared_ptr<const TokenGrammar> grammar,
                                                                const std::vector<Prompt>& prompts) {
  DI_ASSIGN_OR_RETURN(engine::GenerationRequest common, CommonRequest(request, model));
  common.grammar = std::move(grammar);
  std::vector<engine::CheckedRequest> requests;
  for (size_t i = 0; i < prompts.size(); ++i) {
    engine::GenerationRequest one = common;
    one.prompt = prompts[i].ids;
    Result<engine::CheckedRequest> checked = model.engine->Check(std::move(one));
    if (!checked) return tl::unexpected(Refusal(checked.error(), request, model, prompts[i], i));
    requests.push_back(std::move(*checked));
  }
  return requests;
}

}  // namespace deepinfer::server
