// A model that is ready to answer, as the server sees it. Plain data; what it points to is thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/async_engine.h"
#include "server/api_error.h"
#include "server/api_request.h"
#include "text/grammar.h"
#include "text/tokenizer.h"

namespace deepinfer::server {

struct ServedModel {
  std::string name;  // the first of its names
  engine::AsyncEngine* engine = nullptr;
  const text::Tokenizer* tokenizer = nullptr;       // null: token ids only
  const text::GrammarCompiler* grammars = nullptr;  // null: no structured output
  std::vector<int32_t> eos_ids;
  int64_t context = 0;  // tokens
  int64_t vocab = 0;
  int64_t block_size = 0;  // of the KV cache
};

struct Prompt {
  std::string text;  // for echo
  std::vector<int32_t> ids;
};

// The prompts of a request as token ids; those of a chat are one. 400 for what the model cannot take.
ApiResult<std::vector<Prompt>> EncodePrompts(const ApiRequest& request, const ServedModel& model);

// The grammar that the answers must keep to, compiled; null if none was asked for. 400 naming the field and, in a
// schema, the JSON pointer and keyword of what cannot be honoured.
ApiResult<std::shared_ptr<const TokenGrammar>> CompileGrammar(const ApiRequest& request, const ServedModel& model);

// The engine's requests, one for each prompt. 400 naming the parameter if one could never run: code
// context_length_exceeded with n_prompt_tokens and n_ctx where a prompt is too long.
ApiResult<std::vector<engine::CheckedRequest>> ToEngineRequests(const ApiRequest& request, const ServedModel& model,
                                                                std::shared_ptr<const TokenGrammar> grammar,
                                                                const std::vector<Prompt>& prompts);

}  // namespace deepinfer::server
