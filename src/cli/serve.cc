// serve: an HTTP server with OpenAI's API, one model, one process.
#include "server/serve.h"

#include <sys/resource.h>

#include "backend/build_id.h"
#include "cli/command.h"
#include "cli/config_file.h"
#include "cli/engine_flags.h"
#include "cli/output.h"
#include "runner/memory_table.h"

namespace deepinfer::cli {
namespace {

struct ServeFlags {
  ModelFlags model;
  std::string config;
  std::string tokenizer;
  std::string chat_template;
  server::ServeOptions options;
  int64_t shutdown_timeout_s = 30;
  int64_t max_body_mib = 16;
  int64_t max_queued_requests = 1024;
  engine::EngineOptions engine;
  bool no_access_log = false;
  bool dry_run = false;
};

// A client each costs a file descriptor.
void RaiseFileLimit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Status UseOtherText(const ServeFlags& flags, Session* session) {
  if (!flags.tokenizer.empty()) {
    DI_ASSIGN_OR_RETURN(std::optional<text::Tokenizer> tokenizer, LoadTokenizer(flags.tokenizer));
    if (!tokenizer) return MakeError(ErrorCode::kNotFound, "--tokenizer", "{} has no tokenizer", flags.tokenizer);
    if (tokenizer->vocab_size() > session->runner->model().info().vocab_size) {
      return MakeError(ErrorCode::kInvalidArgument, "--tokenizer", "{} has {} tokens, the model {}", flags.tokenizer,
                       tokenizer->vocab_size(), session->runner->model().info().vocab_size);
    }
    session->tokenizer = std::move(*tokenizer);
    session->FindStopIds();
  }
  if (flags.chat_template.empty()) return {};
  if (!session->tokenizer) return MakeError(ErrorCode::kFailedPrecondition, "--chat-template", "there is no tokenizer");
  DI_ASSIGN_OR_RETURN(const std::string source, ReadFile(flags.chat_template));
  return session->tokenizer->UseChatTemplate(source, flags.chat_template);
}

// What structured output is made with; none where the tokenizer has no end of text.
std::shared_ptr<const text::GrammarCompiler> GrammarsOf(const Session& session) {
  if (!session.tokenizer) return nullptr;
  auto grammars = text::GrammarCompiler::Create(*session.tokenizer, session.runner->model().info().vocab_size);
  if (grammars) return std::make_shared<const text::GrammarCompiler>(std::move(*grammars));
  spdlog::warn("no structured output: {}", grammars.error().ToString());
  return nullptr;
}

Result<server::LoadedService> Load(const ServeFlags& flags, const BackendFactory& backends,
                                   std::function<void(const engine::EngineStats&)> on_step) {
  if (!flags.model.verbose) spdlog::info("{}", ToString(PlanTeam(flags.model)));  // OpenSession says it, if verbose
  DI_ASSIGN_OR_RETURN(std::unique_ptr<Session> opened, OpenSession(flags.model, backends, flags.engine));
  DI_RETURN_IF_ERROR(UseOtherText(flags, opened.get()));
  const std::shared_ptr<Session> session = std::move(opened);
  server::LoadedService service;
  const std::shared_ptr<const text::GrammarCompiler> grammars = GrammarsOf(*session);
  service.owner = std::make_shared<std::pair<std::shared_ptr<Session>, std::shared_ptr<const text::GrammarCompiler>>>(
      session, grammars);
  service.model.grammars = grammars.get();
  service.engine =
      std::make_unique<engine::AsyncEngine>(std::move(session->engine), flags.max_queued_requests, std::move(on_step));
  service.model.name = flags.options.api.model_names.front();
  service.model.tokenizer = session->tokenizer ? &*session->tokenizer : nullptr;
  service.model.eos_ids = session->stop_ids;
  service.model.context = session->runner->options().max_model_len;
  service.model.vocab = session->runner->model().info().vocab_size;
  service.model.block_size = session->runner->options().block_size;
  service.after_ready = [session] {
    session->runner->PopulateStates();
    KeepForNextStart(*session);
  };
  return service;
}

// What the model will need, without reading a weight.
Status DryRun(const ServeFlags& flags, const BackendFactory& backends) {
  DI_ASSIGN_OR_RETURN(const std::string path, ResolveModel(flags.model.model));
  BackendRequest request;
  request.name = flags.model.backend;
  request.plugin = flags.model.plugin;
  request.ranks = flags.model.tensor_parallel_size;
  DI_ASSIGN_OR_RETURN(const std::unique_ptr<backend::Backend> backend, backends(request));
  DI_ASSIGN_OR_RETURN(runner::RunnerOptions options, ToRunnerOptions(flags.model));
  DI_ASSIGN_OR_RETURN(const runner::LoadedModel described,
                      runner::DescribeModel(path, backend->caps(), ToLoadOptions(flags.model, 1)));
  DI_ASSIGN_OR_RETURN(const runner::StepConfig steps,
                      runner::ResolveSteps(*described.model, backend->name(), backend->caps(), std::move(options)));
  const runner::MemoryNeeds needs = runner::NeedsOf(*described.model, described.types, steps);
  const MemoryLimit limit = FindMemoryLimit();
  const int64_t longest = described.model->info().max_positions;
  const int64_t fits = runner::TokensThatFit(needs, limit);
  const std::string largest =
      limit.bytes == 0 ? "unknown" : fmt::format("{} tokens", std::min(fits, longest > 0 ? longest : fits));
  DI_RETURN_IF_ERROR(WriteOut(
      FormatTable({{"memory", ""},
                   {"weights", FormatBytes(needs.weights)},
                   {fmt::format("KV cache and states, {} tokens", (steps.sizes.blocks - 1) * steps.options.block_size),
                    FormatBytes(needs.states)},
                   {"step buffers", FormatBytes(needs.buffers)},
                   {"sum", FormatBytes(needs.weights + needs.states + needs.buffers)},
                   {limit.bytes == 0 ? "limit" : limit.source, limit.bytes == 0 ? "unknown" : FormatBytes(limit.bytes)},
                   {"context, --max-model-len", fmt::format("{} tokens", needs.context)},
                   {"largest context that fits", largest}}) +
      ToString(PlanTeam(flags.model)) + "\n"));
  return runner::CheckMemory(needs, limit);
}

Status ServeModel(ServeFlags flags, const BackendFactory& backends) {
  if (flags.dry_run) return DryRun(flags, backends);
  server::ServeOptions& options = flags.options;
  if (options.api.model_names.empty()) options.api.model_names = {flags.model.model};
  options.api.version = DEEPINFER_VERSION;
  options.api.build = backend::BuildId();
  options.api.access_log = !flags.no_access_log;
  options.shutdown_timeout = std::chrono::seconds(flags.shutdown_timeout_s);
  options.http.max_body_bytes = flags.max_body_mib << 20;
  RaiseFileLimit();
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %v");
  return server::Serve(options, [&](std::function<void(const engine::EngineStats&)> on_step) {
    return Load(flags, backends, std::move(on_step));
  });
}

void AddServerFlags(CLI::App* command, ServeFlags* flags) {
  server::HttpOptions& http = flags->options.http;
  server::ApiOptions& api = flags->options.api;
  http.port = 8000;
  command->add_option("--host", http.host, "address to listen on; 0.0.0.0: all")->capture_default_str();
  command->add_option("--port", http.port, "0: any free one")->check(CLI::Range(0, 65535))->capture_default_str();
  command
      ->add_option("--served-model-name", api.model_names,
                   "what clients call the model; several: a,b or the flag again; default: MODEL")
      ->allow_extra_args(false)
      ->delimiter(',')
      ->type_name("NAME");
  command->add_option("--api-key", api.api_keys, "clients must send one of these; default: everybody may")
      ->allow_extra_args(false)
      ->delimiter(',')
      ->type_name("KEY");
  command
      ->add_option("--allowed-origins", api.allowed_origins,
                   "web pages of these origins may call, such as https://example.com; *: all; default: none")
      ->allow_extra_args(false)
      ->delimiter(',')
      ->type_name("ORIGIN");
  command->add_option("--tokenizer", flags->tokenizer, "a folder or GGUF file to take the tokenizer from")
      ->type_name("PATH");
  command->add_option("--chat-template", flags->chat_template, "a file with the template to use instead of the model's")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
  command
      ->add_option("--max-queued-requests", flags->max_queued_requests,
                   "answers that may wait beyond those that run; more get 429; 0: no bound")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--max-body-mib", flags->max_body_mib, "size of a request")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--http-threads", http.threads, "for connections, tokens and JSON")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command
      ->add_option("--shutdown-timeout", flags->shutdown_timeout_s,
                   "seconds that running requests have to end after SIGTERM")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("--disable-access-log", flags->no_access_log, "no line on stderr for each request");
  command->add_flag("--enable-log-requests", api.log_requests, "write the body of each request to stderr: prompts too");
  command->add_flag(
      "--dry-run", flags->dry_run,
      "print what weights, KV cache and buffers need, the largest context that fits, and where threads and memory "
      "would be, and end");
}

}  // namespace

void AddServe(CLI::App* app, CommandContext* context) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* command = app->add_subcommand("serve", "an HTTP server with OpenAI's API and a chat page");
  AddModelFlags(command, &flags->model);
  command->get_option("model")->required(false);  // it may come from the configuration
  AddEngineFlags(command, &flags->engine);
  AddServerFlags(command, flags.get());
  AddVariables(command);
  AddConfig(command, &flags->config);
  command->callback([command, flags, context] {
    ApplyConfig(command, flags->config);
    if (flags->model.model.empty()) throw CLI::RequiredError("model");
    context->status = ServeModel(*flags, context->backends);
  });
}

}  // namespace deepinfer::cli
