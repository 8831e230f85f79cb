// --prompt and --prompt-ids, and the sampling flags: shared by the commands that take prompts. Plain data; the CLI11
// objects live as long as the program.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/session.h"
#include "engine/request.h"

namespace deepinfer::cli {

struct PromptFlags {
  std::vector<std::string> texts;
  std::vector<std::string> ids;
  bool chat = false;
  CLI::App* command = nullptr;  // knows the order of the command line
  CLI::Option* text_option = nullptr;
  CLI::Option* ids_option = nullptr;
};

// many: the flags may be repeated, for a batch.
void AddPromptFlags(CLI::App* command, PromptFlags* flags, bool many);
// Throws CLI11's error if there is no prompt at all; call it before anything is loaded.
void RequirePrompt(const PromptFlags& flags);
// Token ids of each prompt, in the order of the command line. An error names which of several it concerns.
Result<std::vector<std::vector<int32_t>>> EncodePrompts(const PromptFlags& flags, const Session& session);
// "prompt 2 of 3: ..." where there are several.
Error NamePrompt(Error error, size_t index, size_t count);

// "1,2,3", with spaces allowed around the numbers. Fails naming the flag and the part.
Result<std::vector<int32_t>> ParseIds(const std::string& flag, const std::string& text);
// The same as a check for CLI11.
CLI::Validator IdList(const std::string& flag);

// `count` ids of any vocabulary, the same in every run; prompts that differ in `first` share no prefix.
std::vector<int32_t> FixedPrompt(int64_t count, int64_t vocab, int64_t first = 0);

struct SamplingFlags {
  engine::SamplingParams params;
  std::vector<std::string> stops;
  std::vector<std::string> logit_bias;  // "ID:BIAS"
  std::string allowed_ids, banned_ids;  // "1,2,3"
  std::vector<std::string> bad_words;
  std::vector<std::string> dry_breakers = {"\n", ":", "\"", "*"};
};

// Defaults are those in `flags`.
void AddSamplingFlags(CLI::App* command, SamplingFlags* flags);
// Completes `params`; throws CLI11's error for values that no model could accept.
void CheckSampling(SamplingFlags* flags);
// What depends on the model: the ids of bad words and of DRY's breakers. Fails naming the flag.
Status ResolveSampling(const Session& session, SamplingFlags* flags);

}  // namespace deepinfer::cli
