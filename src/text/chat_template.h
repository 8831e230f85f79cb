// A chat template: a conversation in, the text a model was trained on out. Jinja as Transformers runs it.
//
// Compile() finds syntax errors (message: line and tag). Render() answers kInvalidArgument with the template's own
// words when it calls raise_exception, and with line and reason when a rendering fails. There is no fallback to another
// template. Objects keep the order of their keys. Immutable after Compile: thread-safe. Limits: instructions and
// recursion are bounded, JSON may nest 100 deep.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace deepinfer::text {

using Json = nlohmann::ordered_json;

struct ChatInput {
  Json messages = Json::array();  // the role "developer" becomes "system" for a template that does not know it
  Json tools = nullptr;           // an array of tool objects, or null
  bool add_generation_prompt = true;
  Json kwargs = Json::object();  // further variables (enable_thinking, ...); win over special-token names
};

class ChatTemplate {
 public:
  static Result<ChatTemplate> Compile(std::string_view source, const std::string& where);

  // special_tokens: an object of variables such as bos_token.
  Result<std::string> Render(const ChatInput& input, const Json& special_tokens) const;
  const std::string& source() const { return source_; }

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
  std::string source_;
  std::string where_;
};

// An error if the value nests deeper than what can safely be walked.
Status CheckNesting(const Json& value, const std::string& where);

}  // namespace deepinfer::text
