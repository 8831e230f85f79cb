#include "cli/prompt_flags.h"

#include <algorithm>
#include <charconv>

namespace deepinfer::cli {

Result<std::vector<int32_t>> ParseIds(const std::string& flag, const std::string& text) {
  std::vector<int32_t> ids;
  size_t at = 0;
  while (at <= text.size()) {
    const size_t comma = std::min(text.find(',', at), text.size());
    std::string_view part = std::string_view(text).substr(at, comma - at);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    int32_t id = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), id);
    if (error != std::errc() || end != part.data() + part.size()) {
      return MakeError(ErrorCode::kInvalidArgument, flag, "'{}' is not a token id (expected 1,2,3)", std::string(part));
    }
    ids.push_back(id);
    at = comma + 1;
  }
  return ids;
}

CLI::Validator IdList(const std::string& flag) {
  return CLI::Validator(
      [flag](std::string& text) {
        const auto ids = ParseIds(flag, text);
        return ids ? std::string() : ids.error().message;
      },
      "");
}

void AddPromptFlags(CLI::App* command, PromptFlags* flags, bool many) {
  flags->command = command;
  flags->text_option = command->add_option("--prompt", flags->texts, many ? "text; repeat for a batch" : "text")
                           ->allow_extra_args(false)
                           ->type_name("TEXT");
  flags->ids_option =
      command->add_option("--prompt-ids", flags->ids, many ? "token ids 1,2,3; repeat for a batch" : "token ids 1,2,3")
          ->allow_extra_args(false)
          ->type_name("IDS")
          ->check(IdList("--prompt-ids"));
  command->add_flag("--chat", flags->chat, "--prompt is a user's message, rendered by the model's chat template");
  if (!many) flags->text_option->excludes(flags->ids_option);
}

void RequirePrompt(const PromptFlags& flags) {
  if (flags.texts.empty() && flags.ids.empty()) throw CLI::RequiredError("--prompt or --prompt-ids");
}

Error NamePrompt(Error error, size_t index, size_t count) {
  if (count > 1) {
    error.where = fmt::format("prompt {} of {}{}", index + 1, count, error.where.empty() ? "" : ": " + error.where);
  }
  return error;
}

Result<std::vector<std::vector<int32_t>>> EncodePrompts(const PromptFlags& flags, const Session& session) {
  std::vector<std::vector<int32_t>> prompts;
  const size_t count = flags.texts.size() + flags.ids.size();
  size_t text = 0;
  size_t ids = 0;
  for (const CLI::Option* option : flags.command->parse_order()) {
    Result<std::vector<int32_t>> encoded;
    if (option == flags.text_option && text < flags.texts.size()) {
      encoded = session.EncodePrompt(flags.texts[text++], flags.chat);
    } else if (option == flags.ids_option && ids < flags.ids.size()) {
      encoded = ParseIds("--prompt-ids", flags.ids[ids++]);
    } else {
      continue;
    }
    if (!encoded) return tl::unexpected(NamePrompt(std::move(encoded.error()), prompts.size(), count));
    prompts.push_back(std::move(*encoded));
  }
  return prompts;
}

std::vector<int32_t> FixedPrompt(int64_t count, int64_t vocab, int64_t first) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>((100 + 37 * (first + i)) % vocab));
  return ids;
}

void AddSamplingFlags(CLI::App* command, SamplingFlags* flags) {
  engine::SamplingParams* params = &flags->params;
  command->add_option("--max-tokens", params->max_tokens, "tokens of an answer; default: what the context leaves")
      ->check(CLI::PositiveNumber);
  command->add_option("--temperature", params->temperature, "0: greedy")->capture_default_str();
  command->add_option("--top-p", params->top_p, "1: off")->capture_default_str();
  command->add_option("--top-k", params->top_k, "0: off")->capture_default_str();
  command->add_option("--min-p", params->min_p, "0: off")->capture_default_str();
  command->add_option("--seed", params->seed, "of the draws; each prompt of a batch has the same")
      ->capture_default_str();
  command->add_option("--stop", flags->stops, "end before this text; repeat for several")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  command->add_flag("--ignore-eos", params->ignore_eos, "go on after an end-of-text token");
}

void CheckSampling(const SamplingFlags& flags) {
  for (const std::string& stop : flags.stops) {
    if (stop.empty()) throw CLI::ValidationError("--stop", "must not be empty");
  }
  if (const Status valid = Validate(flags.params); !valid) {
    std::string flag = "--" + valid.error().where;
    std::replace(flag.begin(), flag.end(), '_', '-');
    throw CLI::ValidationError(flag, valid.error().message);
  }
}

}  // namespace deepinfer::cli
