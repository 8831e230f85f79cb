#include "cli/grammar_flags.h"

#include "cli/output.h"
#include "text/grammar.h"

namespace deepinfer::cli {
namespace {

struct Given {
  const char* flag;
  text::GrammarSpec spec;
  std::string file;  // that holds the source
};

std::vector<Given> GivenIn(const GrammarFlags& flags) {
  using text::GrammarKind;
  std::vector<Given> given;
  if (flags.json_object) given.push_back({"--json-object", {GrammarKind::kJsonObject, "", {}}, ""});
  if (!flags.json_schema.empty()) {
    given.push_back({"--json-schema", {GrammarKind::kJsonSchema, "", {}}, flags.json_schema});
  }
  if (!flags.regex.empty()) given.push_back({"--regex", {GrammarKind::kRegex, flags.regex, {}}, ""});
  if (!flags.choices.empty()) given.push_back({"--choice", {GrammarKind::kChoice, "", flags.choices}, ""});
  if (!flags.lark.empty()) given.push_back({"--grammar", {GrammarKind::kLark, "", {}}, flags.lark});
  return given;
}

}  // namespace

void AddGrammarFlags(CLI::App* command, GrammarFlags* flags) {
  command->add_flag("--json-object", flags->json_object, "the answer is a JSON object");
  command->add_option("--json-schema", flags->json_schema, "the answer is JSON of this schema")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
  command->add_option("--regex", flags->regex, "the answer matches this expression as a whole")->type_name("REGEX");
  command->add_option("--choice", flags->choices, "the answer is this text; repeat for the other choices")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  command->add_option("--grammar", flags->lark, "the answer is of this Lark grammar")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
}

void CheckGrammar(const GrammarFlags& flags) {
  const std::vector<Given> given = GivenIn(flags);
  if (given.size() > 1) throw CLI::ExcludesError(given[1].flag, given[0].flag);
}

Result<std::shared_ptr<const TokenGrammar>> CompileGrammar(const GrammarFlags& flags, const Session& session) {
  std::vector<Given> given = GivenIn(flags);
  if (given.empty()) return nullptr;
  Given& one = given.front();
  DI_RETURN_IF_ERROR(session.RequireTokenizer(one.flag));
  if (!one.file.empty()) {
    DI_ASSIGN_OR_RETURN(one.spec.source, ReadFile(one.file));
  }
  const int64_t vocab = session.runner->model().info().vocab_size;
  DI_ASSIGN_OR_RETURN(const text::GrammarCompiler compiler, text::GrammarCompiler::Create(*session.tokenizer, vocab));
  auto grammar = compiler.Compile(one.spec);
  if (!grammar) grammar.error().where = one.flag;
  return grammar;
}

}  // namespace deepinfer::cli
