// tokenize: text to token ids. Loads the tokenizer and nothing else.
#include "cli/command.h"
#include "cli/output.h"

namespace deepinfer::cli {
namespace {

struct TokenizeFlags {
  std::string model;
  std::string text;
  CLI::Option* text_option = nullptr;
  bool no_parse_special = false;
  bool add_special = false;
  bool json = false;
};

Status Tokenize(const TokenizeFlags& flags) {
  DI_ASSIGN_OR_RETURN(const text::Tokenizer tokenizer, LoadTokenizerOf(flags.model));
  std::string text = flags.text;
  if (flags.text_option->count() == 0) {
    DI_ASSIGN_OR_RETURN(text, ReadStdin());
  }
  DI_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer.Encode(text, {.parse_special = !flags.no_parse_special,
                                                                              .add_special = flags.add_special}));
  if (flags.json) return WriteJson({{"ids", ids}});
  return WriteOut(fmt::format("{}\n", fmt::join(ids, ",")));
}

}  // namespace

void AddTokenize(CLI::App* app, CommandContext* context) {
  auto flags = std::make_shared<TokenizeFlags>();
  CLI::App* command = app->add_subcommand("tokenize", "text to token ids");
  AddModelArgument(command, &flags->model);
  flags->text_option = command->add_option("--text", flags->text, "without it stdin is one text, newlines included");
  command->add_flag("--no-parse-special", flags->no_parse_special, "special tokens in the text stay plain text");
  command->add_flag("--add-special", flags->add_special, "add what the model wants around a text (BOS, EOS)");
  command->add_flag("--json", flags->json, "one JSON object: ids");
  command->callback([flags, context] { context->status = Tokenize(*flags); });
}

}  // namespace deepinfer::cli
