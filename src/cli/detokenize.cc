// detokenize: token ids to text. Loads the tokenizer and nothing else.
#include <algorithm>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/prompt_flags.h"

namespace deepinfer::cli {
namespace {

struct DetokenizeFlags {
  std::string model;
  std::string ids;
  CLI::Option* ids_option = nullptr;
  bool skip_special = false;
  bool json = false;
};

// Commas, spaces and line ends all separate; what tokenize prints comes back in.
Result<std::vector<int32_t>> ReadIds() {
  DI_ASSIGN_OR_RETURN(std::string text, ReadStdin());
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t' || c == ','; }, ' ');
  std::string list;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = text.find_first_not_of(' ', at);
    if (begin == std::string::npos) break;
    at = std::min(text.find(' ', begin), text.size());
    list += (list.empty() ? "" : ",") + text.substr(begin, at - begin);
  }
  if (list.empty()) return std::vector<int32_t>();
  return ParseIds("stdin", list);
}

Status Detokenize(const DetokenizeFlags& flags) {
  DI_ASSIGN_OR_RETURN(const text::Tokenizer tokenizer, LoadTokenizerOf(flags.model));
  std::vector<int32_t> ids;
  if (flags.ids_option->count() == 0) {
    DI_ASSIGN_OR_RETURN(ids, ReadIds());
  } else if (!flags.ids.empty()) {
    DI_ASSIGN_OR_RETURN(ids, ParseIds("--ids", flags.ids));
  }
  for (const int32_t id : ids) {
    if (id >= 0 && id < tokenizer.vocab_size()) continue;
    return MakeError(ErrorCode::kInvalidArgument, "--ids", "{} is not in the vocabulary of {}", id,
                     tokenizer.vocab_size());
  }
  const std::string text = tokenizer.Decode(ids, flags.skip_special);
  return flags.json ? WriteJson({{"text", text}}) : WriteOut(text);
}

}  // namespace

void AddDetokenize(CLI::App* app, CommandContext* context) {
  auto flags = std::make_shared<DetokenizeFlags>();
  CLI::App* command = app->add_subcommand("detokenize", "token ids to text");
  AddModelArgument(command, &flags->model);
  flags->ids_option = command->add_option("--ids", flags->ids, "1,2,3; without it they come from stdin")
                          ->type_name("IDS")
                          ->check([](const std::string& text) {
                            const auto ids = ParseIds("--ids", text);
                            return ids || text.empty() ? std::string() : ids.error().message;
                          });
  command->add_flag("--skip-special", flags->skip_special, "leave special tokens out of the text");
  command->add_flag("--json", flags->json, "one JSON object: text");
  command->callback([flags, context] { context->status = Detokenize(*flags); });
}

}  // namespace deepinfer::cli
