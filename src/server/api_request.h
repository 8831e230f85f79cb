// What a client asked for at /v1/chat/completions or /v1/completions: every field of its kind, and those that depend on
// each other checked. Ranges of values are the engine's to check (engine::Engine::Check). Plain data; the functions are
// pure.
//
// Fields are rows of one table (request_fields.cc). A name that is not there is refused, as is a value that nothing
// here could honour: no field is ever ignored. null stands for the default.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/request.h"
#include "server/api_error.h"
#include "server/structured_output.h"
#include "text/chat_template.h"

namespace deepinfer::server {

enum class Endpoint : uint8_t { kChat = 1, kCompletions = 2 };

struct ApiRequest {
  Endpoint endpoint = Endpoint::kChat;
  std::string model;              // "": whichever is served
  engine::SamplingParams params;  // logprobs: what the endpoint's own fields say; seed: see `seed`
  std::optional<int64_t> seed;    // none: a new one
  std::optional<int64_t> max_tokens;
  int32_t n = 1;
  int32_t priority = 0;
  std::string cache_salt;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;
  std::vector<std::string> dry_breakers;
  std::vector<std::string> bad_words;
  int32_t prompt_logprobs = -1;  // -1: none; 0: the prompt's own tokens; n: also the n best
  std::optional<AskedGrammar> grammar;
  bool stream = false;
  bool include_usage = false;
  bool return_token_ids = false;
  bool add_special_tokens = true;  // completions: BOS where the model wants one

  // kChat.
  text::ChatInput chat;

  // kCompletions. One or more; text is still to be encoded.
  std::vector<std::variant<std::string, std::vector<int32_t>>> prompts;
  bool echo = false;
};

// 400 naming the parameter.
ApiResult<ApiRequest> ParseApiRequest(const Json& body, Endpoint endpoint);

// "messages" of a conversation: roles, and contents as text (parts of the type text are joined by newlines); what a
// template needs besides (tool calls of earlier turns, names) stays.
ApiResult<Json> ParseMessages(const Json& value);

// Every field of the table, for the manual's test: its name and the endpoints ("chat", "completions") that take it.
std::vector<std::pair<std::string, std::string>> GenerationFieldNames();

}  // namespace deepinfer::server
