#include "cli/prompt_flags.h"

#include <algorithm>
#include <charconv>

#include "text/token_search.h"

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

namespace {

// "12:-3.5".
Result<engine::LogitBias> ParseBias(const std::string& text) {
  engine::LogitBias entry;
  const char* end = text.data() + text.size();
  const auto id = std::from_chars(text.data(), end, entry.id);
  if (id.ec == std::errc() && id.ptr != end && *id.ptr == ':') {
    const auto bias = std::from_chars(id.ptr + 1, end, entry.bias);
    if (bias.ec == std::errc() && bias.ptr == end) return entry;
  }
  return MakeError(ErrorCode::kInvalidArgument, "--logit-bias", "'{}' is not ID:BIAS", text);
}

void AddPenaltyFlags(CLI::App* command, SamplingFlags* flags) {
  engine::SamplingParams* params = &flags->params;
  command->add_option("--repetition-penalty", params->repetition_penalty, "of tokens seen so far; 1: off")
      ->capture_default_str();
  command->add_option("--presence-penalty", params->presence_penalty, "of tokens in the answer")->capture_default_str();
  command->add_option("--frequency-penalty", params->frequency_penalty, "for each time a token is in the answer")
      ->capture_default_str();
  command->add_option("--dry-multiplier", params->dry_multiplier, "of what continues a repetition; 0: off")
      ->capture_default_str();
  command->add_option("--dry-base", params->dry_base, "growth with its length")->capture_default_str();
  command->add_option("--dry-allowed-length", params->dry_allowed_length, "repetitions up to it cost nothing")
      ->capture_default_str();
  command->add_option("--dry-range", params->dry_range, "tokens looked back at; -1: all")->capture_default_str();
  command->add_option("--dry-breaker", flags->dry_breakers, "text that no repetition goes across; repeat for several")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  command->add_option("--logit-bias", flags->logit_bias, "added to a token's logit; repeat for several")
      ->allow_extra_args(false)
      ->type_name("ID:BIAS");
  command->add_option("--allowed-ids", flags->allowed_ids, "only these tokens")
      ->type_name("IDS")
      ->check(IdList("--allowed-ids"));
  command->add_option("--banned-ids", flags->banned_ids, "none of these tokens")
      ->type_name("IDS")
      ->check(IdList("--banned-ids"));
  command->add_option("--bad-word", flags->bad_words, "text that must not come in an answer; repeat for several")
      ->allow_extra_args(false)
      ->type_name("TEXT");
}

}  // namespace

void AddSamplingFlags(CLI::App* command, SamplingFlags* flags) {
  engine::SamplingParams* params = &flags->params;
  command->add_option("--max-tokens", params->max_tokens, "tokens of an answer; default: what the context leaves")
      ->check(CLI::PositiveNumber);
  command->add_option("--min-tokens", params->min_tokens, "no end before so many")->capture_default_str();
  command->add_option("--temperature", params->temperature, "0: greedy")->capture_default_str();
  command->add_option("--top-p", params->top_p, "1: off")->capture_default_str();
  command->add_option("--top-k", params->top_k, "0: off")->capture_default_str();
  command->add_option("--min-p", params->min_p, "0: off")->capture_default_str();
  command->add_option("--typical-p", params->typical_p, "1: off")->capture_default_str();
  command->add_option("--xtc-probability", params->xtc_probability, "0: off")->capture_default_str();
  command->add_option("--xtc-threshold", params->xtc_threshold, "what is a likely token")->capture_default_str();
  AddPenaltyFlags(command, flags);
  command->add_option("--seed", params->seed, "of the draws; each prompt of a batch has the same")
      ->capture_default_str();
  command->add_option("--stop", flags->stops, "end before this text; repeat for several")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  command->add_flag("--ignore-eos", params->ignore_eos, "go on after an end-of-text token");
}

void CheckSampling(SamplingFlags* flags) {
  for (const std::string& stop : flags->stops) {
    if (stop.empty()) throw CLI::ValidationError("--stop", "must not be empty");
  }
  for (const std::string& breaker : flags->dry_breakers) {
    if (breaker.empty()) throw CLI::ValidationError("--dry-breaker", "must not be empty");
  }
  for (const std::string& word : flags->bad_words) {
    if (word.empty()) throw CLI::ValidationError("--bad-word", "must not be empty");
  }
  for (const std::string& text : flags->logit_bias) {
    const auto entry = ParseBias(text);
    if (!entry) throw CLI::ValidationError(entry.error().where, entry.error().message);
    flags->params.logit_bias.push_back(*entry);
  }
  if (!flags->allowed_ids.empty()) flags->params.allowed_ids = *ParseIds("--allowed-ids", flags->allowed_ids);
  if (!flags->banned_ids.empty()) flags->params.banned_ids = *ParseIds("--banned-ids", flags->banned_ids);
  if (const Status valid = Validate(flags->params); !valid) {
    std::string flag = "--" + valid.error().where;
    std::replace(flag.begin(), flag.end(), '_', '-');
    throw CLI::ValidationError(flag, valid.error().message);
  }
}

Status ResolveSampling(const Session& session, SamplingFlags* flags) {
  if (!flags->bad_words.empty()) {
    DI_RETURN_IF_ERROR(session.RequireTokenizer("--bad-word"));
    auto words = text::SpellingsOf(*session.tokenizer, flags->bad_words);
    if (!words) return MakeError(words.error().code, "--bad-word", "{}", words.error().message);
    flags->params.bad_words = std::move(*words);
  }
  if (flags->params.dry_multiplier == 0 || !session.tokenizer) return {};
  const int64_t vocab = session.runner->model().info().vocab_size;
  flags->params.dry_breaker_ids = text::TokensContaining(*session.tokenizer, flags->dry_breakers, vocab);
  return {};
}

}  // namespace deepinfer::cli
