// compile: fills the cache for a model, so that the next start is a warm one.
#include <spdlog/spdlog.h>

#include <map>
#include <mutex>

#include "cli/answer.h"
#include "cli/command.h"
#include "cli/output.h"

namespace deepinfer::cli {
namespace {

struct CompileFlags {
  ModelFlags model;
  bool json = false;
};

struct CompileTimes {
  std::mutex mutex;
  std::map<const backend::Executable*, double> ms;
};

// Passes everything on and notes how long each Compile took.
class TimedBackend : public backend::Backend {
 public:
  TimedBackend(std::unique_ptr<backend::Backend> inner, CompileTimes* times)
      : inner_(std::move(inner)), times_(times) {}

  const char* name() const override { return inner_->name(); }
  backend::Caps caps() const override { return inner_->caps(); }
  std::string target() const override { return inner_->target(); }
  std::vector<std::string> passes() const override { return inner_->passes(); }
  bool Claims(const ir::Function& function, const ir::Node& node) const override {
    return inner_->Claims(function, node);
  }
  Status SetWeights(backend::WeightMap weights, const std::string& identity) override {
    return inner_->SetWeights(std::move(weights), identity);
  }
  Result<std::unique_ptr<backend::StateSet>> AllocateStates(const std::map<std::string, int64_t>& bytes) override {
    return inner_->AllocateStates(bytes);
  }
  Result<std::unique_ptr<backend::Executable>> Compile(const ir::Module& module,
                                                       const backend::CompileOptions& options) override {
    const auto start = std::chrono::steady_clock::now();
    DI_ASSIGN_OR_RETURN(std::unique_ptr<backend::Executable> executable, inner_->Compile(module, options));
    const std::lock_guard lock(times_->mutex);
    times_->ms[executable.get()] = MsSince(start);
    return executable;
  }
  Status Finalize() override { return inner_->Finalize(); }
  Status Persist() override { return inner_->Persist(); }
  int64_t weight_bytes() const override { return inner_->weight_bytes(); }

 private:
  std::unique_ptr<backend::Backend> inner_;
  CompileTimes* times_;
};

// The cache says why an entry was not used in lines that begin like this (backend/executable_cache.cc).
std::string CacheTitle(const models::StepShape& shape) {
  return fmt::format("{} graph, {} tokens, {} rows: ", ToString(shape.phase), shape.tokens, shape.rows);
}

// The first line about a graph; empty if it came from the cache.
std::string MissReason(const std::vector<std::string>& lines, const models::StepShape& shape) {
  const std::string title = CacheTitle(shape);
  for (const std::string& line : lines) {
    if (const size_t at = line.find(title); at != std::string::npos) return line.substr(at + title.size());
  }
  return "";
}

Json Report(const Session& session, const CompileTimes& times, const std::vector<std::string>& lines) {
  Json graphs = Json::array();
  const bool cache = !session.runner->options().cache_dir.empty();
  for (const runner::CompiledGraph& graph : session.runner->graphs()) {
    const std::string reason = cache ? MissReason(lines, graph.shape) : "no cache folder";
    const auto ms = times.ms.find(graph.executable);
    graphs.push_back({{"phase", ToString(graph.shape.phase)},
                      {"bucket", graph.shape.tokens},
                      {"status", reason.empty() ? "cached" : "compiled"},
                      {"ms", ms == times.ms.end() ? 0.0 : ms->second},
                      {"reason", reason.empty() ? Json() : Json(reason)}});
  }
  return graphs;
}

Status Compile(const CompileFlags& flags, const BackendFactory& backends) {
  CompileTimes times;
  std::vector<std::string> lines;
  const BackendFactory timed = [&](const BackendRequest& request) -> Result<std::unique_ptr<backend::Backend>> {
    DI_ASSIGN_OR_RETURN(std::unique_ptr<backend::Backend> inner, backends(request));
    return std::make_unique<TimedBackend>(std::move(inner), &times);
  };
  DI_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                      OpenSession(flags.model, timed, [&](runner::RunnerOptions* options) {
                        options->log = [&lines, next = options->log](const std::string& line) {
                          lines.push_back(line);
                          if (next) next(line);
                        };
                      }));
  const Json graphs = Report(*session, times, lines);
  const auto start = std::chrono::steady_clock::now();
  DI_RETURN_IF_ERROR(session->runner->backend().Persist());
  const double persist_ms = MsSince(start);
  const std::string& folder = session->runner->options().cache_dir;
  if (flags.json) {
    return WriteJson({{"graphs", graphs},
                      {"load_ms", session->load_ms},
                      {"compile_ms", session->compile_ms},
                      {"persist_ms", persist_ms},
                      {"weight_bytes", session->runner->backend().weight_bytes()},
                      {"cache_dir", folder.empty() ? Json() : Json(folder)}});
  }
  std::vector<std::vector<std::string>> rows = {{"phase", "bucket", "status", "ms", "reason"}};
  for (const Json& graph : graphs) {
    rows.push_back({graph["phase"], fmt::format("{}", graph["bucket"].get<int64_t>()), graph["status"],
                    fmt::format("{:.1f}", graph["ms"].get<double>()),
                    graph["reason"].is_null() ? "" : graph["reason"].get<std::string>()});
  }
  return WriteOut(FormatTable(rows) +
                  fmt::format("{} graphs in {:.0f} ms, {} of packed weights kept in {:.0f} ms; cache: {}\n",
                              graphs.size(), session->compile_ms,
                              FormatBytes(session->runner->backend().weight_bytes()), persist_ms,
                              folder.empty() ? "none" : folder));
}

}  // namespace

void AddCompile(CLI::App* app, CommandContext* context) {
  auto flags = std::make_shared<CompileFlags>();
  CLI::App* command = app->add_subcommand("compile", "compile every graph of a model and fill the cache");
  AddModelFlags(command, &flags->model);
  command->add_flag("--json", flags->json,
                    "one JSON object: graphs (phase, bucket, status, ms, reason), load_ms, compile_ms, persist_ms, "
                    "weight_bytes, cache_dir");
  command->callback([flags, context] { context->status = Compile(*flags, context->backends); });
}

}  // namespace deepinfer::cli
