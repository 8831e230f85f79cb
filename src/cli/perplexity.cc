// perplexity: how well a model predicts a text, in windows that do not overlap.
//
// The text's tokens are cut into windows of W (with the BOS the model wants in front of each); within a window every
// token after the first S positions is scored given those before it. W = the context and S = 1 by default; llama.cpp's
// tool scores the second half of windows of 512: --window 512 --skip 256. An incomplete last window counts too.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "cli/clock.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/prompt_logits.h"

namespace deepinfer::cli {
namespace {

struct PerplexityFlags {
  ModelFlags model;
  std::string file;
  int64_t window = 0;
  int64_t skip = 1;
  int64_t max_tokens = 0;
  bool json = false;
};

struct Score {
  double negative_log = 0;  // summed
  int64_t scored = 0;
  int64_t windows = 0;
  int64_t tokens = 0;  // run through the model
};

double NegativeLogProbability(const float* logits, int64_t vocab, int32_t token) {
  const float max = *std::max_element(logits, logits + vocab);
  double sum = 0;
  for (int64_t i = 0; i < vocab; ++i) sum += std::exp(logits[i] - max);
  return std::log(sum) + max - logits[token];
}

Status ScoreWindow(const Session& session, const std::vector<int32_t>& window, int64_t skip, Progress* progress,
                   Score* score) {
  const auto add = [&](int64_t position, const float* logits, int64_t vocab) {
    const int64_t next = position + 1;
    if (next < skip || next >= static_cast<int64_t>(window.size())) return;
    score->negative_log += NegativeLogProbability(logits, vocab, window[next]);
    ++score->scored;
  };
  DI_RETURN_IF_ERROR(ForEachPromptLogits(session, window, add, progress));
  ++score->windows;
  score->tokens += static_cast<int64_t>(window.size());
  return {};
}

// The ids that the model wants in front of a text.
Result<std::vector<int32_t>> Prefix(const text::Tokenizer& tokenizer) {
  DI_ASSIGN_OR_RETURN(const std::vector<int32_t> alone, tokenizer.Encode("", {.add_special = true}));
  if (tokenizer.bos_id() && !alone.empty() && alone.front() == *tokenizer.bos_id()) return std::vector{alone.front()};
  return std::vector<int32_t>();
}

Result<Score> ScoreAll(const Session& session, const std::vector<int32_t>& ids, int64_t window, int64_t skip) {
  DI_ASSIGN_OR_RETURN(const std::vector<int32_t> prefix, Prefix(*session.tokenizer));
  const int64_t step = window - static_cast<int64_t>(prefix.size());
  if (step < 2) return MakeError(ErrorCode::kInvalidArgument, "--window", "{} is too small to score anything", window);
  Score score;
  const int64_t count = static_cast<int64_t>(ids.size());
  Progress progress("scoring", count + (count + step - 1) / step * static_cast<int64_t>(prefix.size()));
  for (int64_t at = 0; at < count; at += step) {
    std::vector<int32_t> part = prefix;
    part.insert(part.end(), ids.begin() + at, ids.begin() + std::min(at + step, count));
    if (part.size() < 2) break;
    DI_RETURN_IF_ERROR(ScoreWindow(session, part, skip, &progress, &score));
  }
  if (score.scored == 0) {
    return MakeError(ErrorCode::kInvalidArgument, "FILE", "{} tokens in windows of {} leave nothing to score", count,
                     window);
  }
  return score;
}

Status Perplexity(const PerplexityFlags& flags, const BackendFactory& backends) {
  DI_ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.file));
  DI_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, OpenSession(flags.model, backends));
  if (!session->tokenizer) {
    return MakeError(ErrorCode::kFailedPrecondition, "perplexity", "{} has no tokenizer", session->path);
  }
  const int64_t context = session->runner->options().max_model_len;
  const int64_t window = flags.window == 0 ? context : flags.window;
  if (window > context) {
    return MakeError(ErrorCode::kInvalidArgument, "--window", "is {}, the context is {}", window, context);
  }
  DI_ASSIGN_OR_RETURN(std::vector<int32_t> ids, session->tokenizer->Encode(text, {.parse_special = false}));
  if (flags.max_tokens > 0 && static_cast<int64_t>(ids.size()) > flags.max_tokens) ids.resize(flags.max_tokens);
  const auto start = std::chrono::steady_clock::now();
  DI_ASSIGN_OR_RETURN(const Score score, ScoreAll(*session, ids, window, flags.skip));
  const double speed = static_cast<double>(score.tokens) * 1000 / MsSince(start);
  const double mean = score.negative_log / static_cast<double>(score.scored);
  if (flags.json) {
    return WriteJson({{"perplexity", std::exp(mean)},
                      {"nll", mean},
                      {"tokens", static_cast<int64_t>(ids.size())},
                      {"scored", score.scored},
                      {"windows", score.windows},
                      {"window", window},
                      {"tok_s", speed}});
  }
  return WriteOut(fmt::format("perplexity {:.4f} over {} of {} tokens in {} window{} of {}; {:.0f} tok/s\n",
                              std::exp(mean), score.scored, ids.size(), score.windows, score.windows == 1 ? "" : "s",
                              window, speed));
}

}  // namespace

void AddPerplexity(CLI::App* app, CommandContext* context) {
  auto flags = std::make_shared<PerplexityFlags>();
  flags->model.max_num_seqs = kPromptLogitsRows;
  CLI::App* command = app->add_subcommand("perplexity", "how well a model predicts a text");
  AddModelFlags(command, &flags->model);
  command->add_option("file", flags->file, "a text in UTF-8")->required();
  command->add_option("--window", flags->window, "tokens per window; 0: the context")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--skip", flags->skip, "tokens at the start of a window that only give context")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--max-tokens", flags->max_tokens, "use only the first N tokens of the text; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("--json", flags->json, "one JSON object: perplexity, nll, tokens, scored, windows, window, tok_s");
  command->callback([flags, context] { context->status = Perplexity(*flags, context->backends); });
}

}  // namespace deepinfer::cli
