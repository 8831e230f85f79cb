// compile: fills the cache for a model, so that the next start is a warm one.
#include <chrono>

#include "cli/clock.h"
#include "cli/command.h"
#include "cli/output.h"

namespace deepinfer::cli {
namespace {

struct CompileFlags {
  ModelFlags model;
  bool json = false;
};

Json Report(const Session& session) {
  Json graphs = Json::array();
  for (const backend::ExecutableCache::BuildReport& report : session.runner->cache().reports()) {
    graphs.push_back({{"phase", report.key.phase},
                      {"bucket", report.key.tokens},
                      {"status", report.from_disk ? "cached" : "compiled"},
                      {"ms", report.compile_ms},
                      {"reason", report.from_disk ? Json() : Json(report.reason)}});
  }
  return graphs;
}

Status Compile(const CompileFlags& flags, const BackendFactory& backends) {
  DI_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, OpenSession(flags.model, backends));
  const Json graphs = Report(*session);
  const std::vector<std::string> notes = session->runner->backend().notes();
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
                      {"cache_dir", folder.empty() ? Json() : Json(folder)},
                      {"notes", notes}});
  }
  std::vector<std::vector<std::string>> rows = {{"phase", "bucket", "status", "ms", "reason"}};
  for (const Json& graph : graphs) {
    rows.push_back({graph["phase"], fmt::format("{}", graph["bucket"].get<int64_t>()), graph["status"],
                    fmt::format("{:.1f}", graph["ms"].get<double>()),
                    graph["reason"].is_null() ? "" : graph["reason"].get<std::string>()});
  }
  std::string text = FormatTable(rows);
  for (const std::string& note : notes) text += note + "\n";
  return WriteOut(text + fmt::format("{} graphs in {:.0f} ms, {} of packed weights kept in {:.0f} ms; cache: {}\n",
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
                    "weight_bytes, cache_dir, notes");
  command->callback([flags, context] { context->status = Compile(*flags, context->backends); });
}

}  // namespace deepinfer::cli
