// The flags that constrain an answer: --json-object, --json-schema, --regex, --choice, --grammar. Plain data.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/token_constraint.h"
#include "cli/session.h"

namespace deepinfer::cli {

struct GrammarFlags {
  bool json_object = false;
  std::string json_schema;  // a file
  std::string regex;
  std::vector<std::string> choices;
  std::string lark;  // a file
};

void AddGrammarFlags(CLI::App* command, GrammarFlags* flags);
// Throws CLI11's error if more than one is given.
void CheckGrammar(const GrammarFlags& flags);
// Null if none is given. Fails, naming the flag, without a tokenizer and for what cannot be compiled.
Result<std::shared_ptr<const TokenGrammar>> CompileGrammar(const GrammarFlags& flags, const Session& session);

}  // namespace deepinfer::cli
