// generate: one or more prompts in one batch, streamed as text or printed as JSON lines.
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/grammar_flags.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/prompt_flags.h"

namespace deepinfer::cli {
namespace {

struct GenerateFlags {
  ModelFlags model;
  PromptFlags prompts;
  SamplingFlags sampling;
  GrammarFlags grammar;
  int32_t prompt_logprobs = -1;
  bool json = false;
};

using Answers = std::vector<std::unique_ptr<Answer>>;

// Nothing runs until every prompt of the batch was accepted.
Result<Answers> SubmitAll(const GenerateFlags& flags, std::vector<std::vector<int32_t>> prompts, Session* session) {
  Answers answers;
  DI_ASSIGN_OR_RETURN(const std::shared_ptr<const TokenGrammar> grammar, CompileGrammar(flags.grammar, *session));
  for (size_t i = 0; i < prompts.size(); ++i) {
    const bool streamed = !flags.json && prompts.size() == 1;
    DI_ASSIGN_OR_RETURN(std::unique_ptr<Answer> answer, Answer::Create(*session, flags.sampling.stops, streamed));
    engine::GenerationRequest request;
    request.prompt = std::move(prompts[i]);
    request.params = flags.sampling.params;
    request.stop_ids = session->stop_ids;
    request.prompt_logprobs = flags.prompt_logprobs;
    request.grammar = grammar;
    if (Status added = answer->Submit(std::move(request), session->engine.get()); !added) {
      return tl::unexpected(NamePrompt(std::move(added.error()), i, prompts.size()));
    }
    answers.push_back(std::move(answer));
  }
  return answers;
}

Status Print(const GenerateFlags& flags, const Session& session, const Answers& answers) {
  for (size_t i = 0; i < answers.size(); ++i) {
    const Answer& answer = *answers[i];
    DI_RETURN_IF_ERROR(answer.written());
    if (flags.json) {
      DI_RETURN_IF_ERROR(WriteJson(answer.ToJson(session)));
      continue;
    }
    const bool was_streamed = answers.size() == 1 && answer.has_text();
    const std::string text = was_streamed        ? ""
                             : answer.has_text() ? answer.text()
                                                 : fmt::format("{}", fmt::join(answer.ids(), ","));
    DI_RETURN_IF_ERROR(WriteOut(text + "\n"));
    SayErr(answer.Summary(session));
  }
  for (size_t i = 0; i < answers.size(); ++i) {
    if (answers[i]->error()) return tl::unexpected(NamePrompt(*answers[i]->error(), i, answers.size()));
  }
  return {};
}

Status Generate(GenerateFlags flags, const BackendFactory& backends) {
  DI_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, OpenSession(flags.model, backends));
  DI_RETURN_IF_ERROR(ResolveSampling(*session, &flags.sampling));
  if (!flags.sampling.stops.empty()) DI_RETURN_IF_ERROR(session->RequireTokenizer("--stop"));
  DI_ASSIGN_OR_RETURN(std::vector<std::vector<int32_t>> prompts, EncodePrompts(flags.prompts, *session));
  const Interrupt interrupt(/*limit=*/2);
  DI_ASSIGN_OR_RETURN(const Answers answers, SubmitAll(flags, std::move(prompts), session.get()));
  std::vector<int64_t> ids;
  for (const auto& answer : answers) ids.push_back(answer->id());
  {
    // A streamed answer shows its own progress.
    std::optional<Progress> progress;
    if (flags.json || answers.size() > 1) progress.emplace("generating");
    DI_RETURN_IF_ERROR(RunRequests(session->engine.get(), ids, interrupt));
  }
  DI_RETURN_IF_ERROR(Print(flags, *session, answers));
  if (interrupt.count() > 0) return MakeError(ErrorCode::kCancelled, "", "interrupted");
  KeepForNextStart(*session);
  return {};
}

}  // namespace

void AddGenerate(CLI::App* app, CommandContext* context) {
  auto flags = std::make_shared<GenerateFlags>();
  flags->sampling.params.temperature = 0;
  CLI::App* command = app->add_subcommand("generate", "continue prompts");
  AddModelFlags(command, &flags->model);
  AddPromptFlags(command, &flags->prompts, /*many=*/true);
  AddSamplingFlags(command, &flags->sampling);
  command
      ->add_option("--logprobs", flags->sampling.params.logprobs,
                   "log-probabilities of each chosen token and of the N best, 0 to 20")
      ->check(CLI::Range(0, 20));
  command
      ->add_option("--prompt-logprobs", flags->prompt_logprobs,
                   "with --json: those of the prompt's tokens and of the N best in their places, 0 to 20")
      ->check(CLI::Range(0, 20));
  AddGrammarFlags(command, &flags->grammar);
  command->add_flag("--json", flags->json, "one JSON object per prompt and line, in the order of the prompts");
  command->callback([flags, context] {
    CheckSampling(&flags->sampling);
    CheckGrammar(flags->grammar);
    RequirePrompt(flags->prompts);
    context->status = Generate(*flags, context->backends);
  });
}

}  // namespace deepinfer::cli
