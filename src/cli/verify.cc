// verify: the same steps on two backends, compared layer by layer.
#include "runner/verify.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/prompt_flags.h"

namespace deepinfer::cli {
namespace {

constexpr int64_t kDefaultPromptTokens = 48;

struct VerifyFlags {
  ModelFlags model;
  PromptFlags prompts;
  std::vector<std::string> backends = {"cpu", "reference"};
  int64_t decode_steps = 4;
  int64_t chunk = 64;
  double tolerance = 0;
  bool json = false;
};

// Relative to the largest value of the row. With bf16 both sides round after every op, each at its own places, and
// layers amplify what is left of a cancelled value, so there is no bound that holds for every model: without one given,
// bf16 differences are reported and not judged. Nor are those of a narrower KV cache, where a value near the middle of
// two codes may become either of them.
std::optional<double> ToleranceOf(const VerifyFlags& flags) {
  if (flags.tolerance > 0) return flags.tolerance;
  const bool plain = KvDType(flags.model).value_or(DType::kF32) == DType::kF32;
  if (flags.model.dtype == "f32" && plain) return 2e-4;
  return std::nullopt;
}

const runner::ValueDifference* PartedAt(const runner::VerifyReport& report, std::optional<double> tolerance) {
  return tolerance ? report.FirstAbove(*tolerance) : nullptr;
}

std::string Verdict(const runner::VerifyReport& report, std::optional<double> tolerance) {
  if (!tolerance) return "not judged without --tolerance";
  const runner::ValueDifference* parted = PartedAt(report, tolerance);
  return parted == nullptr ? fmt::format("all within {:g}", *tolerance) : fmt::format("they part at {}", parted->name);
}

Result<std::unique_ptr<runner::TraceRunner>> OpenSide(const VerifyFlags& flags, const BackendFactory& backends,
                                                      const std::string& path, const std::string& name, int threads,
                                                      int64_t context) {
  BackendRequest request;
  request.name = name;
  request.threads = threads;
  if (name == "cpu") request.numerics = *ParseNumerics(flags.model.numerics);
  DI_ASSIGN_OR_RETURN(std::unique_ptr<backend::Backend> backend, backends(request));
  DI_ASSIGN_OR_RETURN(runner::LoadedModel loaded,
                      runner::LoadModel(path, backend->caps(), ToLoadOptions(flags.model, threads)));
  runner::TraceOptions options;
  options.activations = *ParseDType(flags.model.dtype);
  options.kv = KvDType(flags.model);
  options.chunk = flags.chunk;
  options.context = context;
  return runner::TraceRunner::Create(std::move(loaded), std::move(backend), options);
}

// Loads what a prompt needs: ids given as such need no tokenizer.
Result<std::vector<int32_t>> PromptIds(const VerifyFlags& flags, const std::string& path) {
  if (!flags.prompts.ids.empty()) return ParseIds("--prompt-ids", flags.prompts.ids[0]);
  if (flags.prompts.texts.empty()) return std::vector<int32_t>();
  Session session;
  session.path = path;
  DI_ASSIGN_OR_RETURN(session.tokenizer, LoadTokenizer(path));
  return session.EncodePrompt(flags.prompts.texts[0], flags.prompts.chat);
}

Json ReportJson(const VerifyFlags& flags, const runner::VerifyReport& report, std::optional<double> tolerance) {
  Json layers = Json::array();
  for (const runner::ValueDifference& each : report.values) {
    layers.push_back({{"name", each.name},
                      {"max_abs", each.max_abs},
                      {"max_value", each.max_value},
                      {"relative", each.relative()},
                      {"position", each.position}});
  }
  const runner::ValueDifference* parted = PartedAt(report, tolerance);
  return {{"backends", flags.backends},
          {"dtype", flags.model.dtype},
          {"positions", report.positions},
          {"steps", report.steps},
          {"layers", std::move(layers)},
          {"best_equal", report.best_equal},
          {"largest_margin_lost", report.largest_margin_lost},
          {"tolerance", tolerance ? Json(*tolerance) : Json()},
          {"parted_at", parted == nullptr ? Json() : Json(parted->name)}};
}

std::string ReportText(const VerifyFlags& flags, const runner::VerifyReport& report, std::optional<double> tolerance) {
  std::vector<std::vector<std::string>> rows = {{"value", "difference", "of", "relative", "at position"}};
  for (const runner::ValueDifference& each : report.values) {
    rows.push_back({each.name, fmt::format("{:.3g}", each.max_abs), fmt::format("{:.4g}", each.max_value),
                    fmt::format("{:.2e}", each.relative()), fmt::format("{}", each.position)});
  }
  return FormatTable(rows) + fmt::format("{} against {}, {}: {} positions in {} steps, best token equal at {}; {}\n",
                                         flags.backends[0], flags.backends[1], flags.model.dtype, report.positions,
                                         report.steps, report.best_equal, Verdict(report, tolerance));
}

Status Verify(const VerifyFlags& flags, const BackendFactory& backends) {
  DI_ASSIGN_OR_RETURN(const std::string path, ResolveModel(flags.model.model));
  DI_ASSIGN_OR_RETURN(std::vector<int32_t> prompt, PromptIds(flags, path));
  const bool given = !flags.prompts.ids.empty() || !flags.prompts.texts.empty();
  const int64_t context = (given ? static_cast<int64_t>(prompt.size()) : kDefaultPromptTokens) + flags.decode_steps;
  const std::optional<double> tolerance = ToleranceOf(flags);
  const TeamPlan team = PlanTeam(flags.model);  // whose threads are pinned nowhere here: two backends take turns
  if (flags.model.verbose) spdlog::info("{}", team.count);
  Result<runner::VerifyReport> report;
  {
    Progress progress("verifying " + path, context);
    DI_ASSIGN_OR_RETURN(const auto first, OpenSide(flags, backends, path, flags.backends[0], team.threads, context));
    DI_ASSIGN_OR_RETURN(const auto second, OpenSide(flags, backends, path, flags.backends[1], team.threads, context));
    if (!given) prompt = FixedPrompt(kDefaultPromptTokens, first->vocab());
    report = runner::VerifySteps(first.get(), second.get(), prompt, flags.decode_steps,
                                 [&progress](int64_t positions) { progress.Advance(positions); });
  }
  DI_RETURN_IF_ERROR(report);
  DI_RETURN_IF_ERROR(flags.json ? WriteJson(ReportJson(flags, *report, tolerance))
                                : WriteOut(ReportText(flags, *report, tolerance)));
  if (const runner::ValueDifference* parted = PartedAt(*report, tolerance)) {
    return MakeError(ErrorCode::kInternal, parted->name,
                     "{} and {} differ by {:.2e} of the largest value at a position, more than {:g}", flags.backends[0],
                     flags.backends[1], parted->relative(), *tolerance);
  }
  return {};
}

}  // namespace

void AddVerify(CLI::App* app, CommandContext* context) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App* command = app->add_subcommand("verify", "the same steps on two backends, compared layer by layer");
  // One sequence, in graphs of its own, and nothing kept on disk: the other shared flags would mean nothing.
  AddSomeModelFlags(command, {"--threads", "--dtype", "--numerics", "--kv-cache-dtype", "--weights", "--verbose"},
                    &flags->model);
  command->add_option("--backends", flags->backends, "two of cpu, reference, pjrt")
      ->delimiter(',')
      ->expected(1, 2)
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"cpu", "reference", "pjrt"}))
      ->capture_default_str();
  AddPromptFlags(command, &flags->prompts, /*many=*/false);
  command->add_option("--decode-steps", flags->decode_steps, "after the prompt, with the first backend's best tokens")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  command->add_option("--chunk", flags->chunk, "prompt tokens per step")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command
      ->add_option(
          "--tolerance", flags->tolerance,
          "largest difference allowed, relative to the position's largest value; default 2e-4 with f32, none with bf16")
      ->check(CLI::PositiveNumber);
  command->add_flag("--json", flags->json,
                    "one JSON object: backends, dtype, positions, steps, layers, best_equal, largest_margin_lost, "
                    "tolerance, parted_at");
  command->callback([flags, context] {
    if (flags->backends.size() != 2) throw CLI::ValidationError("--backends", "wants two names, such as cpu,reference");
    context->status = Verify(*flags, context->backends);
  });
}

}  // namespace deepinfer::cli
