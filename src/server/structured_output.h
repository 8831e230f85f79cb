// What a request says about the shape of its answer: OpenAI's response_format, vLLM's structured_outputs and guided_*.
// Read strictly (json_values.h); a schema itself is checked when it is compiled (text/grammar.h). Pure.
#pragma once

#include <optional>
#include <string>

#include "server/api_error.h"
#include "text/grammar.h"

namespace deepinfer::server {

struct AskedGrammar {
  std::string param;  // the field that asks: "response_format.json_schema.schema"
  text::GrammarSpec spec;
};

// Each fails if another field constrains the answer already.
ApiStatus ReadResponseFormat(const Json& value, const std::string& name, std::optional<AskedGrammar>* grammar);
ApiStatus ReadStructuredOutputs(const Json& value, const std::string& name, std::optional<AskedGrammar>* grammar);
// kind: "json", "json_object", "regex", "choice" or "grammar" (Lark).
ApiStatus ReadGuided(const Json& value, const std::string& name, const std::string& kind,
                     std::optional<AskedGrammar>* grammar);

}  // namespace deepinfer::server
