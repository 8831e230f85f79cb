// throughput: requests through the engine alone, as a server under load would run them, without its HTTP, text and
// JSON.
//
// Up to --max-concurrency requests run at a time; whenever one ends the next begins. All have prompts of --input-len
// tokens that share nothing, and answers of --output-len tokens, greedy. What a load generator measures over HTTP with
// the same numbers differs from this by what the server costs.
#include <algorithm>
#include <deque>

#include "cli/clock.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/timed_request.h"

namespace deepinfer::cli {
namespace {

struct ThroughputFlags {
  ModelFlags model;
  int64_t num_prompts = 64;
  int64_t input_len = 128;
  int64_t output_len = 128;
  int64_t max_concurrency = 32;
  engine::EngineOptions engine;
  bool json = false;
};

struct Load {
  double seconds = 0;
  int64_t tokens = 0;
  std::vector<double> ttft_ms, itl_ms;  // sorted
  int64_t prefill_steps = 0, decode_steps = 0, preemptions = 0;
};

double Percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  return sorted[std::min(sorted.size() - 1, static_cast<size_t>(share * static_cast<double>(sorted.size())))];
}

bool MayBegin(const engine::Engine& engine, const ThroughputFlags& flags) {
  const engine::EngineStats now = engine.stats();
  return now.running + now.waiting < flags.max_concurrency;
}

// `first` numbers the prompts, so that no run finds blocks of another.
Result<Load> RunLoad(const ThroughputFlags& flags, Session* session, int64_t num_prompts, int64_t first) {
  engine::Engine& engine = *session->engine;
  const engine::EngineStats before = engine.stats();
  std::deque<TimedRequest> requests;
  const auto left = [&] { return num_prompts - static_cast<int64_t>(requests.size()); };
  Load load;
  const TimedRequest::Clock::time_point start = TimedRequest::Clock::now();
  while (engine.HasWork() || left() > 0) {
    while (left() > 0 && MayBegin(engine, flags)) {
      const int64_t number = first + static_cast<int64_t>(requests.size());
      DI_RETURN_IF_ERROR(requests.emplace_back().Submit(session, flags.input_len, number, flags.output_len,
                                                        fmt::format("{}", number)));
    }
    DI_RETURN_IF_ERROR(engine.Step());
  }
  load.seconds = MsSince(start) / 1000;
  for (const TimedRequest& request : requests) {
    if (request.error) return tl::unexpected(*request.error);
    load.tokens += static_cast<int64_t>(request.times.size());
    load.ttft_ms.push_back(Ms(request.times.front() - request.start));
    for (size_t i = 1; i < request.times.size(); ++i) {
      load.itl_ms.push_back(Ms(request.times[i] - request.times[i - 1]));
    }
  }
  std::sort(load.ttft_ms.begin(), load.ttft_ms.end());
  std::sort(load.itl_ms.begin(), load.itl_ms.end());
  const engine::EngineStats after = engine.stats();
  load.prefill_steps = after.prefill_steps - before.prefill_steps;
  load.decode_steps = after.decode_steps - before.decode_steps;
  load.preemptions = after.preemptions - before.preemptions;
  return load;
}

Json Percentiles(const std::vector<double>& sorted) {
  return {{"p50", Percentile(sorted, 0.5)}, {"p99", Percentile(sorted, 0.99)}};
}

Json ToJson(const ThroughputFlags& flags, const Session& session, const Load& load) {
  return {{"model", session.path},
          {"target", session.runner->backend().target()},
          {"threads", session.runner->options().threads},
          {"num_prompts", flags.num_prompts},
          {"input_len", flags.input_len},
          {"output_len", flags.output_len},
          {"max_concurrency", flags.max_concurrency},
          {"seconds", load.seconds},
          {"output_tok_s", static_cast<double>(load.tokens) / load.seconds},
          {"ttft_ms", Percentiles(load.ttft_ms)},
          {"itl_ms", Percentiles(load.itl_ms)},
          {"prefill_steps", load.prefill_steps},
          {"decode_steps", load.decode_steps},
          {"preemptions", load.preemptions}};
}

std::string ToText(const ThroughputFlags& flags, const Load& load) {
  const auto row = [](const std::string& name, const std::vector<double>& sorted) {
    return std::vector<std::string>{name, fmt::format("{:.1f}", Percentile(sorted, 0.5)),
                                    fmt::format("{:.1f}", Percentile(sorted, 0.99))};
  };
  return fmt::format("{} requests, {} at a time, {} + {} tokens: {:.1f} s, {:.1f} output tok/s\n", flags.num_prompts,
                     flags.max_concurrency, flags.input_len, flags.output_len, load.seconds,
                     static_cast<double>(load.tokens) / load.seconds) +
         FormatTable({{"ms", "p50", "p99"}, row("first token", load.ttft_ms), row("between tokens", load.itl_ms)});
}

Status Throughput(const ThroughputFlags& flags, const BackendFactory& backends) {
  DI_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, OpenSession(flags.model, backends, flags.engine));
  session->runner->PopulateStates();
  Progress progress("running requests");
  const int64_t warm = std::min(flags.num_prompts, flags.max_concurrency);  // wakes the threads
  DI_RETURN_IF_ERROR(RunLoad(flags, session.get(), warm, 0));
  DI_ASSIGN_OR_RETURN(const Load load, RunLoad(flags, session.get(), flags.num_prompts, warm));
  DI_RETURN_IF_ERROR(flags.json ? WriteJson(ToJson(flags, *session, load)) : WriteOut(ToText(flags, load)));
  KeepForNextStart(*session);
  return {};
}

}  // namespace

void AddThroughput(CLI::App* app, CommandContext* context) {
  auto flags = std::make_shared<ThroughputFlags>();
  CLI::App* command = app->add_subcommand("throughput", "many requests through the engine alone: tokens/s, latencies");
  AddModelFlags(command, &flags->model);
  const auto add = [&](const char* name, int64_t* value, const char* help) {
    command->add_option(name, *value, help)->check(CLI::PositiveNumber)->capture_default_str();
  };
  add("--num-prompts", &flags->num_prompts, "requests");
  add("--input-len", &flags->input_len, "tokens of each prompt");
  add("--output-len", &flags->output_len, "tokens of each answer");
  add("--max-concurrency", &flags->max_concurrency, "requests at a time");
  AddEngineFlags(command, &flags->engine);
  command->add_flag("--json", flags->json, "one JSON object");
  command->callback([flags, context] { context->status = Throughput(*flags, context->backends); });
}

}  // namespace deepinfer::cli
