// The table of the fields of /v1/chat/completions and /v1/completions: one row says the name, who takes it, and how it
// is read.
#include <algorithm>
#include <charconv>

#include "server/api_request.h"
#include "server/json_values.h"

namespace deepinfer::server {
namespace {

using Request = ApiRequest;
using Sampling = engine::SamplingParams;

constexpr unsigned kChat = static_cast<unsigned>(Endpoint::kChat);
constexpr unsigned kText = static_cast<unsigned>(Endpoint::kCompletions);
constexpr unsigned kBoth = kChat | kText;

constexpr size_t kMaxStops = 32;
constexpr size_t kMaxBadWords = 1024;
constexpr size_t kMaxStringBytes = 1024;  // of a stop string and the like
constexpr size_t kMaxPrompts = 128;
constexpr int32_t kMaxTopLogprobs = 20;
// As llama.cpp has them.
const char* const kDryBreakers[] = {"\n", ":", "\"", "*"};

using Reader = ApiStatus (*)(const Json& value, const std::string& name, Request* request);

struct Field {
  const char* name;
  unsigned endpoints;
  Reader read;
};

template <auto Member>
ApiStatus Into(const Json& value, const std::string& name, Request* request) {
  return Read(value, name, &(request->*Member));
}

template <auto Member>
ApiStatus Sample(const Json& value, const std::string& name, Request* request) {
  return Read(value, name, &(request->params.*Member));
}

// A field that asks for something which is not there yet: only the value that changes nothing is accepted.
template <class Inert>
ApiStatus Only(bool inert, const std::string& name, const Inert& value) {
  if (inert) return {};
  return Unsupported(name, fmt::format("is not supported by this server; only {} is accepted", value));
}

template <bool Inert>
ApiStatus OnlyBool(const Json& value, const std::string& name, Request*) {
  bool flag = Inert;
  DI_RETURN_IF_ERROR(Read(value, name, &flag));
  return Only(flag == Inert, name, Inert);
}

ApiStatus OnlyEmpty(const Json& value, const std::string& name, Request*) {
  return Only(value == "" || (value.is_structured() && value.empty()), name, "null or an empty value");
}

ApiStatus Nothing(const Json&, const std::string& name, Request*) {
  return Unsupported(name, "is not supported by this server");
}

// Notes of the client for itself: they ask for nothing.
ApiStatus Note(const Json& value, const std::string& name, Request*) {
  if (value.is_string() || value.is_object()) return {};
  return InvalidType(name, "a string or an object", value);
}

template <auto Member>
ApiStatus Optional(const Json& value, const std::string& name, Request* request) {
  int64_t number = 0;
  DI_RETURN_IF_ERROR(Read(value, name, &number));
  request->*Member = number;
  return {};
}

ApiStatus MaxTokens(const Json& value, const std::string& name, Request* request) {
  DI_RETURN_IF_ERROR(Optional<&Request::max_tokens>(value, name, request));
  if (*request->max_tokens >= 0) return {};
  return InvalidValue(name, fmt::format("must be >= 1, got {}", *request->max_tokens));
}

ApiStatus ReadNonEmpty(const Json& value, const std::string& name, std::string* out) {
  DI_RETURN_IF_ERROR(Read(value, name, out));
  if (out->empty()) return InvalidValue(name, "must not be empty");
  if (out->size() <= kMaxStringBytes) return {};
  return InvalidValue(name, fmt::format("has over {} bytes", kMaxStringBytes));
}

template <auto Member, size_t Most>
ApiStatus Strings(const Json& value, const std::string& name, Request* request) {
  DI_RETURN_IF_ERROR(RequireArray(value, name));
  if (value.size() > Most) return InvalidValue(name, fmt::format("has over {} strings", Most));
  std::vector<std::string>& list = request->*Member;
  list.clear();
  for (const Json& each : value) {
    const std::string place = fmt::format("{}[{}]", name, list.size());
    DI_RETURN_IF_ERROR(ReadNonEmpty(each, place, &list.emplace_back()));
  }
  return {};
}

ApiStatus Stop(const Json& value, const std::string& name, Request* request) {
  if (value.is_string()) return ReadNonEmpty(value, name, &request->stop.emplace_back());
  if (!value.is_array()) return InvalidType(name, "a string or an array of strings", value);
  return Strings<&Request::stop, kMaxStops>(value, name, request);
}

ApiStatus StreamOptions(const Json& value, const std::string& name, Request* request) {
  DI_RETURN_IF_ERROR(OnlyMembers(value, name, {"include_usage", "continuous_usage_stats", "include_obfuscation"}));
  for (const auto& [key, member] : value.items()) {
    if (member.is_null()) continue;
    const std::string place = name + "." + key;
    if (key == "include_usage") {
      DI_RETURN_IF_ERROR(Read(member, place, &request->include_usage));
    } else {
      DI_RETURN_IF_ERROR(OnlyBool<false>(member, place, request));
    }
  }
  return {};
}

// Beside n there is nothing to choose the best of; CheckTogether compares them.
ApiStatus BestOf(const Json& value, const std::string& name, Request*) {
  int32_t number = 0;
  return Read(value, name, &number);
}

ApiStatus ServiceTier(const Json& value, const std::string& name, Request*) {
  return Only(value == "auto" || value == "default", name, "\"auto\" or \"default\"");
}

ApiStatus ResponseFormat(const Json& value, const std::string& name, Request* request) {
  return ReadResponseFormat(value, name, &request->grammar);
}

ApiStatus StructuredOutputs(const Json& value, const std::string& name, Request* request) {
  return ReadStructuredOutputs(value, name, &request->grammar);
}

ApiStatus Guided(const Json& value, const std::string& name, Request* request) {
  return ReadGuided(value, name, name.substr(std::string("guided_").size()), &request->grammar);
}

// {"token id": bias}.
ApiStatus LogitBias(const Json& value, const std::string& name, Request* request) {
  DI_RETURN_IF_ERROR(RequireObject(value, name));
  for (const auto& [key, member] : value.items()) {
    const std::string place = name + "." + key;
    engine::LogitBias entry;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), entry.id);
    if (error != std::errc() || end != key.data() + key.size()) return InvalidValue(place, "is not a token id");
    DI_RETURN_IF_ERROR(Read(member, place, &entry.bias));
    request->params.logit_bias.push_back(entry);
  }
  return {};
}

// An empty list would leave no token.
ApiStatus AllowedIds(const Json& value, const std::string& name, Request* request) {
  DI_RETURN_IF_ERROR(Read(value, name, &request->params.allowed_ids));
  return request->params.allowed_ids.empty() ? ApiStatus(InvalidValue(name, "is empty")) : ApiStatus();
}

ApiStatus ToolChoice(const Json& value, const std::string& name, Request*) {
  return Only(value == "none" || value == "auto", name, "\"none\" or \"auto\" (without tools)");
}

ApiStatus ChatLogprobs(const Json& value, const std::string& name, Request* request) {
  bool wanted = false;
  DI_RETURN_IF_ERROR(Read(value, name, &wanted));
  if (wanted) request->params.logprobs = std::max(request->params.logprobs, 0);
  return {};
}

ApiStatus ReadLogprobCount(const Json& value, const std::string& name, int32_t* out) {
  DI_RETURN_IF_ERROR(Read(value, name, out));
  if (*out >= 0 && *out <= kMaxTopLogprobs) return {};
  return InvalidValue(name, fmt::format("must be 0 to {}, got {}", kMaxTopLogprobs, *out));
}

ApiStatus CountLogprobs(const Json& value, const std::string& name, Request* request) {
  return ReadLogprobCount(value, name, &request->params.logprobs);
}

ApiStatus PromptLogprobs(const Json& value, const std::string& name, Request* request) {
  return ReadLogprobCount(value, name, &request->prompt_logprobs);
}

// As in vLLM -1 is off, too.
ApiStatus TopK(const Json& value, const std::string& name, Request* request) {
  DI_RETURN_IF_ERROR(Read(value, name, &request->params.top_k));
  if (request->params.top_k == -1) request->params.top_k = 0;
  return {};
}

ApiStatus Messages(const Json& value, const std::string&, Request* request) {
  DI_ASSIGN_OR_RETURN(request->chat.messages, ParseMessages(value));
  return {};
}

ApiStatus TemplateArguments(const Json& value, const std::string& name, Request* request) {
  DI_RETURN_IF_ERROR(RequireObject(value, name));
  request->chat.kwargs = value;
  return {};
}

ApiStatus GenerationPrompt(const Json& value, const std::string& name, Request* request) {
  return Read(value, name, &request->chat.add_generation_prompt);
}

ApiStatus Prompt(const Json& value, const std::string& name, Request* request) {
  if (value.is_string()) {
    request->prompts.emplace_back(value.get<std::string>());
    return {};
  }
  if (!value.is_array()) return InvalidType(name, "a string, token ids, or an array of these", value);
  if (value.empty()) return InvalidValue(name, "is empty");
  if (value[0].is_number()) {
    std::vector<int32_t> ids;
    DI_RETURN_IF_ERROR(Read(value, name, &ids));
    request->prompts.emplace_back(std::move(ids));
    return {};
  }
  if (value.size() > kMaxPrompts) return InvalidValue(name, fmt::format("has over {} prompts", kMaxPrompts));
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", name, i);
    if (value[i].is_string()) {
      request->prompts.emplace_back(value[i].get<std::string>());
      continue;
    }
    if (!value[i].is_array()) return InvalidType(place, "a string or token ids", value[i]);
    if (value[i].empty()) return InvalidValue(place, "is empty");
    std::vector<int32_t> ids;
    DI_RETURN_IF_ERROR(Read(value[i], place, &ids));
    request->prompts.emplace_back(std::move(ids));
  }
  return {};
}

constexpr Field kFields[] = {
    {"messages", kChat, Messages},
    {"prompt", kText, Prompt},
    {"model", kBoth, Into<&Request::model>},
    {"max_tokens", kBoth, MaxTokens},
    {"max_completion_tokens", kChat, MaxTokens},
    {"temperature", kBoth, Sample<&Sampling::temperature>},
    {"top_p", kBoth, Sample<&Sampling::top_p>},
    {"top_k", kBoth, TopK},
    {"min_p", kBoth, Sample<&Sampling::min_p>},
    {"typical_p", kBoth, Sample<&Sampling::typical_p>},
    {"xtc_probability", kBoth, Sample<&Sampling::xtc_probability>},
    {"xtc_threshold", kBoth, Sample<&Sampling::xtc_threshold>},
    {"frequency_penalty", kBoth, Sample<&Sampling::frequency_penalty>},
    {"presence_penalty", kBoth, Sample<&Sampling::presence_penalty>},
    {"repetition_penalty", kBoth, Sample<&Sampling::repetition_penalty>},
    {"dry_multiplier", kBoth, Sample<&Sampling::dry_multiplier>},
    {"dry_base", kBoth, Sample<&Sampling::dry_base>},
    {"dry_allowed_length", kBoth, Sample<&Sampling::dry_allowed_length>},
    {"dry_penalty_last_n", kBoth, Sample<&Sampling::dry_range>},
    {"dry_sequence_breakers", kBoth, Strings<&Request::dry_breakers, kMaxStops>},
    {"logit_bias", kBoth, LogitBias},
    {"allowed_token_ids", kBoth, AllowedIds},
    {"banned_token_ids", kBoth, Sample<&Sampling::banned_ids>},
    {"bad_words", kBoth, Strings<&Request::bad_words, kMaxBadWords>},
    {"min_tokens", kBoth, Sample<&Sampling::min_tokens>},
    {"response_format", kBoth, ResponseFormat},
    {"structured_outputs", kBoth, StructuredOutputs},
    {"guided_json", kBoth, Guided},
    {"guided_regex", kBoth, Guided},
    {"guided_choice", kBoth, Guided},
    {"guided_grammar", kBoth, Guided},
    {"seed", kBoth, Optional<&Request::seed>},
    {"n", kBoth, Into<&Request::n>},
    {"stop", kBoth, Stop},
    {"stop_token_ids", kBoth, Into<&Request::stop_token_ids>},
    {"ignore_eos", kBoth, Sample<&Sampling::ignore_eos>},
    {"stream", kBoth, Into<&Request::stream>},
    {"stream_options", kBoth, StreamOptions},
    {"logprobs", kChat, ChatLogprobs},
    {"top_logprobs", kChat, CountLogprobs},
    {"logprobs", kText, CountLogprobs},
    {"prompt_logprobs", kBoth, PromptLogprobs},
    {"echo", kText, Into<&Request::echo>},
    {"add_special_tokens", kText, Into<&Request::add_special_tokens>},
    {"chat_template_kwargs", kChat, TemplateArguments},
    {"add_generation_prompt", kChat, GenerationPrompt},
    {"return_token_ids", kBoth, Into<&Request::return_token_ids>},
    {"priority", kBoth, Into<&Request::priority>},
    {"cache_salt", kBoth, Into<&Request::cache_salt>},
    // Notes.
    {"user", kBoth, Note},
    {"metadata", kBoth, Note},
    {"safety_identifier", kBoth, Note},
    {"prompt_cache_key", kBoth, Note},
    {"service_tier", kBoth, ServiceTier},
    // Accepted only where they change nothing.
    {"tools", kChat, OnlyEmpty},
    {"tool_choice", kChat, ToolChoice},
    {"parallel_tool_calls", kChat, OnlyBool<true>},
    {"functions", kChat, OnlyEmpty},
    {"function_call", kChat, ToolChoice},
    {"store", kChat, OnlyBool<false>},
    {"best_of", kText, BestOf},
    {"suffix", kText, OnlyEmpty},
    {"use_beam_search", kBoth, OnlyBool<false>},
    {"skip_special_tokens", kBoth, OnlyBool<true>},
    {"spaces_between_special_tokens", kBoth, OnlyBool<true>},
    {"include_stop_str_in_output", kBoth, OnlyBool<false>},
    {"continue_final_message", kChat, OnlyBool<false>},
    {"truncate_prompt_tokens", kBoth, Nothing},
    {"chat_template", kChat, Nothing},
    {"documents", kChat, OnlyEmpty},
    {"reasoning_effort", kChat, Nothing},
    {"verbosity", kChat, Nothing},
    {"modalities", kChat,
     [](const Json& value, const std::string& name, Request*) {
       return Only(value == Json::array({"text"}), name, R"(["text"])");
     }},
    {"audio", kChat, Nothing},
    {"prediction", kChat, Nothing},
    {"web_search_options", kChat, Nothing},
};

const Field* Find(const std::string& name, unsigned endpoint) {
  for (const Field& field : kFields) {
    if (field.name == name && (field.endpoints & endpoint) != 0) return &field;
  }
  return nullptr;
}

ApiStatus Require(const Json& body, const std::string& name) {
  if (body.contains(name) && !body[name].is_null()) return {};
  return tl::unexpected(ApiError(400, "missing_required_parameter", name, name + ": is missing"));
}

// What several fields say together.
ApiStatus CheckTogether(const Json& body, Request* request) {
  const bool chat = request->endpoint == Endpoint::kChat;
  DI_RETURN_IF_ERROR(Require(body, chat ? "messages" : "prompt"));
  const auto given = [&](const char* name) { return body.contains(name) && !body[name].is_null(); };
  if (given("stream_options") && !request->stream) {
    return InvalidValue("stream_options", "is only allowed together with \"stream\": true");
  }
  if (chat && given("top_logprobs") && !(given("logprobs") && body["logprobs"] == true)) {
    if (request->params.logprobs > 0) {
      return InvalidValue("top_logprobs", "is only allowed together with \"logprobs\": true");
    }
    request->params.logprobs = -1;
  }
  if (request->prompt_logprobs >= 0 && request->stream) {
    return InvalidValue("prompt_logprobs", "is not available together with \"stream\": true");
  }
  if (given("best_of") && body["best_of"] != 1 && body["best_of"] != request->n) {
    return Unsupported("best_of", "is not supported by this server; only 1 or the value of n is accepted");
  }
  const char* limit = given("max_completion_tokens") ? "max_completion_tokens" : "max_tokens";
  if (given("max_completion_tokens")) {
    DI_RETURN_IF_ERROR(MaxTokens(body["max_completion_tokens"], "max_completion_tokens", request));
  }
  if (request->max_tokens == 0 && !request->echo && request->prompt_logprobs < 0) {
    return InvalidValue(limit, "must be >= 1, got 0");
  }
  if (request->max_tokens) request->params.max_tokens = *request->max_tokens;
  return {};
}

}  // namespace

ApiResult<ApiRequest> ParseApiRequest(const Json& body, Endpoint endpoint) {
  ApiRequest request;
  request.endpoint = endpoint;
  request.dry_breakers.assign(std::begin(kDryBreakers), std::end(kDryBreakers));
  for (const auto& [name, value] : body.items()) {
    const Field* field = Find(name, static_cast<unsigned>(endpoint));
    if (field == nullptr) {
      return tl::unexpected(ApiError(400, "unknown_parameter", name, name + ": is not a known parameter"));
    }
    if (!value.is_null()) DI_RETURN_IF_ERROR(field->read(value, name, &request));
  }
  DI_RETURN_IF_ERROR(CheckTogether(body, &request));
  return request;
}

std::vector<std::pair<std::string, std::string>> GenerationFieldNames() {
  std::vector<std::pair<std::string, std::string>> names;
  for (const Field& field : kFields) {
    if ((field.endpoints & kChat) != 0) names.emplace_back(field.name, "chat");
    if ((field.endpoints & kText) != 0) names.emplace_back(field.name, "completions");
  }
  return names;
}

}  // namespace deepinfer::server
