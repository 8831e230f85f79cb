// Structured output: a JSON object, a JSON schema, a regular expression, a list of choices or a Lark grammar, compiled
// against a tokenizer into what the engine asks for its masks (base/token_constraint.h). Over the Rust bridge.
//
// JSON comes out compact: no whitespace between its parts. Properties come in the schema's order. What a schema says
// that cannot be honoured is an error (kUnsupported) naming the JSON pointer and the keyword: output is never less
// constrained than asked. A pattern in a schema may match anywhere in the string, as JSON Schema has it; a regular
// expression of its own matches the whole text. `$ref` reaches into the same schema only. Compiling, the size of a
// source and the work of each mask are bounded; what exceeds that is an error, of one sequence alone: sequences of a
// grammar share nothing that they change.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/token_constraint.h"
#include "text/grammar_cache.h"
#include "text/tokenizer.h"

namespace deepinfer::text {

enum class GrammarKind { kJsonObject, kJsonSchema, kRegex, kChoice, kLark };

struct GrammarSpec {
  GrammarKind kind = GrammarKind::kJsonObject;
  std::string source;                // schema, expression or grammar; UTF-8
  std::vector<std::string> choices;  // kChoice: at least one, none of them empty
};

// Keeps what it compiled (grammar_cache.h). Thread-safe. Grammars may outlive it.
class GrammarCompiler {
 public:
  // vocab: of the model's logits; ids of the tokenizer from there on are never allowed. Takes a moment for a large
  // vocabulary (a trie of all tokens). Fails if the tokenizer has no end of text.
  static Result<GrammarCompiler> Create(const Tokenizer& tokenizer, int64_t vocab, GrammarCacheLimits limits = {});

  GrammarCompiler(GrammarCompiler&&) noexcept;
  GrammarCompiler& operator=(GrammarCompiler&&) noexcept;
  ~GrammarCompiler();

  // Equal specs give the same grammar for as long as it is kept.
  Result<std::shared_ptr<const TokenGrammar>> Compile(const GrammarSpec& spec) const;
  GrammarCacheStats cache_stats() const;

 private:
  struct State;
  explicit GrammarCompiler(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace deepinfer::text
