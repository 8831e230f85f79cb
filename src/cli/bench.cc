// bench: how fast this machine runs a model, beside how fast it reads memory.
//
// Decode: tokens per second of 1 and of --rows sequences after a prompt of one token (--depth: of so many). Prefill: a
// prompt of 512 tokens, to its first token, sampling included. TTFT: a prompt of 16 tokens in a program that is ready.
// Cold and warm start: a fresh process from its start to its first token, with an empty cache folder and with the one
// that the cold start left. Each figure is the median of --repeat rounds, with the best beside it. With --ops, tables
// of where the time of each kind of step goes: by op and kernel, beside the measured bandwidth and peak.
#include <algorithm>
#include <chrono>

#include "base/cpu_features.h"
#include "cli/bandwidth.h"
#include "cli/child_process.h"
#include "cli/clock.h"
#include "cli/command.h"
#include "cli/op_table.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/timed_request.h"

namespace deepinfer::cli {
namespace {

constexpr int64_t kPrefillTokens = 512;
constexpr int64_t kTtftTokens = 16;
constexpr int64_t kDecodeTokens = 128;
constexpr int64_t kBandwidthBytes = int64_t{256} << 20;  // beyond every cache
constexpr int kBandwidthRounds = 5;
constexpr int64_t kOpContext = 128;  // tokens before the profiled decode steps
constexpr int kOpRounds = 5;

struct BenchFlags {
  ModelFlags model;
  int repeat = 3;
  int64_t depth = 1;
  int64_t rows = 16;
  bool no_start = false;
  bool ops = false;
  bool json = false;
};

struct Figure {
  std::vector<double> values;
  bool higher_is_better = true;

  double median() const {
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    const size_t middle = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  }
  double best() const {
    return higher_is_better ? *std::max_element(values.begin(), values.end())
                            : *std::min_element(values.begin(), values.end());
  }
};

struct Phase {
  std::string name;
  int64_t rows = 1;
  int64_t tokens = 0;  // per row
  Figure tok_s;
};

struct Report {
  Phase prefill{"prefill", 1, kPrefillTokens};
  Phase decode{"decode", 1, kDecodeTokens};
  Phase batch{"decode", 0, kDecodeTokens};
  Figure ttft_ms{{}, false};
  Figure cold_ms{{}, false};
  Figure warm_ms{{}, false};
  Bandwidth bandwidth;
  double peak_flops = 0;
  std::vector<ProfiledStep> steps;  // with --ops
  int64_t weight_bytes = 0;

  double best_bandwidth() const { return std::max(bandwidth.plain, bandwidth.tuned); }
};

struct Timing {
  double first_ms = 0;      // until every row has its first token
  double decode_tok_s = 0;  // after that, over all rows
};

Result<Timing> RunRows(Session* session, int64_t rows, int64_t prompt, int64_t tokens) {
  std::vector<TimedRequest> requests(static_cast<size_t>(rows));
  const TimedRequest::Clock::time_point start = TimedRequest::Clock::now();
  const std::string salt =
      fmt::format("{}", start.time_since_epoch().count());  // a round finds nothing of an earlier one
  for (int64_t row = 0; row < rows; ++row) {
    DI_RETURN_IF_ERROR(requests[static_cast<size_t>(row)].Submit(session, prompt, row, tokens, salt));
  }
  DI_RETURN_IF_ERROR(session->engine->RunUntilIdle());
  TimedRequest::Clock::time_point all_started = start;
  TimedRequest::Clock::time_point end = start;
  for (const TimedRequest& request : requests) {
    if (request.error) return tl::unexpected(*request.error);
    all_started = std::max(all_started, request.times.front());
    end = std::max(end, request.times.back());
  }
  int64_t after = 0;
  for (const TimedRequest& request : requests) {
    after +=
        std::count_if(request.times.begin(), request.times.end(), [&](const auto& time) { return time > all_started; });
  }
  const std::chrono::duration<double> decoding = end - all_started;
  return Timing{Ms(all_started - start), decoding.count() > 0 ? static_cast<double>(after) / decoding.count() : 0};
}

Status MeasureSpeed(const BenchFlags& flags, Session* session, Report* report) {
  const int64_t context = session->runner->options().max_model_len;
  if (context < 32)
    return MakeError(ErrorCode::kInvalidArgument, "--max-model-len", "bench wants at least 32, got {}", context);
  if (flags.depth > context - 2) {
    return MakeError(ErrorCode::kInvalidArgument, "--depth", "{} and two more tokens exceed the context of {}",
                     flags.depth, context);
  }
  report->prefill.tokens = std::min(kPrefillTokens, context - 1);
  report->decode.tokens = report->batch.tokens = std::min(kDecodeTokens, context - 1 - flags.depth);
  report->batch.rows = std::min(flags.rows, session->runner->options().max_num_seqs);
  session->runner->PopulateStates();
  Progress progress("measuring speed");
  DI_RETURN_IF_ERROR(RunRows(session, report->batch.rows, kTtftTokens, 4));  // wakes the threads
  for (int round = 0; round < flags.repeat; ++round) {
    DI_ASSIGN_OR_RETURN(const Timing prefill, RunRows(session, 1, report->prefill.tokens, 1));
    DI_ASSIGN_OR_RETURN(const Timing ttft, RunRows(session, 1, kTtftTokens, 1));
    DI_ASSIGN_OR_RETURN(const Timing decode, RunRows(session, 1, flags.depth, report->decode.tokens + 1));
    DI_ASSIGN_OR_RETURN(const Timing batch,
                        RunRows(session, report->batch.rows, flags.depth, report->batch.tokens + 1));
    report->prefill.tok_s.values.push_back(static_cast<double>(report->prefill.tokens) * 1000 / prefill.first_ms);
    report->ttft_ms.values.push_back(ttft.first_ms);
    report->decode.tok_s.values.push_back(decode.decode_tok_s);
    report->batch.tok_s.values.push_back(batch.decode_tok_s);
  }
  return {};
}

// The three kinds of step that are timed as a whole, op by op.
Status MeasureOps(Session* session, Report* report) {
  Progress progress("measuring ops");
  report->peak_flops = session->runner->backend().MeasurePeakFlops();
  const int64_t context = std::min(kOpContext, report->decode.tokens);
  const int64_t chunk = std::min(report->prefill.tokens, session->runner->options().prefill_buckets.back());
  report->steps = {{models::Phase::kPrefill, 1, chunk, 0, {}},
                   {models::Phase::kDecode, 1, 1, context, {}},
                   {models::Phase::kDecode, report->batch.rows, 1, context, {}}};
  for (ProfiledStep& step : report->steps) DI_RETURN_IF_ERROR(ProfileStep(session->runner.get(), kOpRounds, &step));
  return {};
}

// The same flags for a child, but for the cache folder.
std::vector<std::string> ChildArguments(const BenchFlags& flags, const std::string& cache_dir) {
  ModelFlags model = flags.model;
  model.cache_dir = cache_dir;
  std::vector<std::string> arguments = {"generate"};
  for (const std::string& argument : ToArguments(model)) arguments.push_back(argument);
  arguments.insert(arguments.end(), {"--prompt-ids", "1", "--max-tokens", "1", "--ignore-eos", "--json"});
  return arguments;
}

Status MeasureStarts(const BenchFlags& flags, Report* report) {
  Progress progress("measuring starts");
  for (int round = 0; round < flags.repeat; ++round) {
    DI_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Create());
    DI_ASSIGN_OR_RETURN(const ChildRun cold, RunSelf(ChildArguments(flags, folder.path())));
    DI_ASSIGN_OR_RETURN(const ChildRun warm, RunSelf(ChildArguments(flags, folder.path())));
    report->cold_ms.values.push_back(cold.first_line_ms);
    report->warm_ms.values.push_back(warm.first_line_ms);
  }
  return {};
}

Json FigureJson(const Figure& figure) {
  if (figure.values.empty()) return nullptr;
  return {{"median", figure.median()}, {"best", figure.best()}};
}

Json ToJson(const BenchFlags& flags, const Session& session, const Report& report) {
  Json phases = Json::array();
  for (const Phase* phase : {&report.prefill, &report.decode, &report.batch}) {
    phases.push_back({{"phase", phase->name},
                      {"rows", phase->rows},
                      {"tokens", phase->tokens},
                      {"tok_s", FigureJson(phase->tok_s)}});
  }
  Json steps = Json::array();
  for (const ProfiledStep& step : report.steps) {
    steps.push_back(OpTableJson(step, report.best_bandwidth(), report.peak_flops));
  }
  return {{"model", session.path},
          {"cpu", CpuName()},
          {"backend", flags.model.backend},
          {"target", session.runner->backend().target()},
          {"threads", session.runner->options().threads},
          {"dtype", flags.model.dtype},
          {"repeat", flags.repeat},
          {"depth", flags.depth},
          {"phases", std::move(phases)},
          {"ttft_ms", FigureJson(report.ttft_ms)},
          {"cold_start_ms", FigureJson(report.cold_ms)},
          {"warm_start_ms", FigureJson(report.warm_ms)},
          {"weight_bytes", report.weight_bytes},
          {"bandwidth_gb_s", {{"plain", report.bandwidth.plain / 1e9}, {"tuned", report.bandwidth.tuned / 1e9}}},
          {"decode_gb_s", report.decode.tok_s.median() * static_cast<double>(report.weight_bytes) / 1e9},
          {"peak_gf_s", report.peak_flops / 1e9},
          {"steps", std::move(steps)},
          {"compiles_after_ready", session.runner->cache().compiles_after_ready()}};
}

std::vector<std::string> Row(const std::string& name, const Figure& figure, const std::string& unit) {
  return {name, fmt::format("{:.1f}", figure.median()), fmt::format("{:.1f}", figure.best()), unit};
}

std::string ToText(const BenchFlags& flags, const Session& session, const Report& report) {
  std::vector<std::vector<std::string>> rows = {
      {fmt::format("median and best of {}", flags.repeat), "median", "best", ""}};
  for (const Phase* phase : {&report.prefill, &report.decode, &report.batch}) {
    rows.push_back(Row(
        fmt::format("{}, {} row{} x {} tokens", phase->name, phase->rows, phase->rows == 1 ? "" : "s", phase->tokens),
        phase->tok_s, "tok/s"));
  }
  rows.push_back(Row(fmt::format("first token, {} tokens", kTtftTokens), report.ttft_ms, "ms"));
  if (!report.cold_ms.values.empty()) {
    rows.push_back(Row("cold start to first token", report.cold_ms, "ms"));
    rows.push_back(Row("warm start to first token", report.warm_ms, "ms"));
  }
  rows.push_back({"memory read, plain", "", fmt::format("{:.1f}", report.bandwidth.plain / 1e9), "GB/s"});
  rows.push_back(
      {"memory read, huge pages and prefetch", "", fmt::format("{:.1f}", report.bandwidth.tuned / 1e9), "GB/s"});
  const double used = report.decode.tok_s.median() * static_cast<double>(report.weight_bytes);
  std::string tables;
  for (const ProfiledStep& step : report.steps) {
    tables += "\n" + OpTable(step, report.best_bandwidth(), report.peak_flops);
  }
  if (report.peak_flops > 0) {
    rows.push_back({"multiply-adds from registers", "", fmt::format("{:.0f}", report.peak_flops / 1e9), "GF/s"});
  }
  const double ceiling = report.best_bandwidth();
  return fmt::format("{} on {} ({}), {} threads, {}\n", session.path, CpuName(), session.runner->backend().target(),
                     session.runner->options().threads, flags.model.dtype) +
         FormatTable(rows) +
         fmt::format("weights: {}; one row of decode reads {:.1f} GB/s of them, {:.0f} % of the measured bandwidth\n",
                     FormatBytes(report.weight_bytes), used / 1e9, ceiling > 0 ? used * 100 / ceiling : 0) +
         tables;
}

Status Bench(const BenchFlags& flags, const BackendFactory& backends) {
  Report report;
  {
    // First, while nothing else of this program uses memory.
    const TeamPlan team = PlanTeam(flags.model);
    Progress progress("measuring memory bandwidth");
    DI_ASSIGN_OR_RETURN(report.bandwidth, MeasureBandwidth(team, kBandwidthBytes, kBandwidthRounds));
  }
  if (!flags.no_start) DI_RETURN_IF_ERROR(MeasureStarts(flags, &report));
  engine::EngineOptions options;
  options.prefill_step_ms = 0;  // what --depth puts before the rows is not measured
  DI_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, OpenSession(flags.model, backends, options));
  report.weight_bytes = session->runner->backend().weight_bytes();
  DI_RETURN_IF_ERROR(MeasureSpeed(flags, session.get(), &report));
  if (flags.ops) DI_RETURN_IF_ERROR(MeasureOps(session.get(), &report));
  DI_RETURN_IF_ERROR(flags.json ? WriteJson(ToJson(flags, *session, report))
                                : WriteOut(ToText(flags, *session, report)));
  KeepForNextStart(*session);
  return {};
}

}  // namespace

void AddBench(CLI::App* app, CommandContext* context) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* command = app->add_subcommand("bench", "speed of a model on this machine, beside its memory bandwidth");
  AddModelFlags(command, &flags->model);
  command->add_option("--repeat", flags->repeat, "rounds of every measurement")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command->add_option("--depth", flags->depth, "tokens of each sequence before the decoding that is measured")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--rows", flags->rows, "sequences of the second decode measurement, at most --max-num-seqs")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--no-start", flags->no_start, "leave out cold and warm start");
  command->add_flag("--ops", flags->ops, "where the time of a step goes: by op and kernel, beside bandwidth and peak");
  command->add_flag("--json", flags->json, "one JSON object");
  command->callback([flags, context] { context->status = Bench(*flags, context->backends); });
}

}  // namespace deepinfer::cli
