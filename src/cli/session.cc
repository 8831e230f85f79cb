#include "cli/session.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>

#include "base/env.h"
#include "cli/clock.h"
#include "cli/progress.h"

namespace deepinfer::cli {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;

bool IsSynthetic(const std::string& model) {
  return model.rfind("synthetic:", 0) == 0;
}

std::vector<fs::path> PackageFolders() {
  std::vector<fs::path> folders;
  if (const std::string dir = GetEnv("DEEPINFER_MODELS_DIR"); !dir.empty()) folders.emplace_back(dir);
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back(program.parent_path().parent_path() / "assets");
  return folders;
}

// The only GGUF file of a folder.
std::optional<std::string> SingleGguf(const fs::path& folder) {
  std::error_code error;
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".gguf") found.push_back(entry.path().string());
  }
  if (found.size() != 1) return std::nullopt;
  return found[0];
}

Result<std::unique_ptr<backend::Backend>> OpenBackend(const BackendFactory& backends, const BackendRequest& request) {
  DI_ASSIGN_OR_RETURN(std::unique_ptr<backend::Backend> backend, backends(request));
  const int64_t ranks = backend->caps().ranks;
  if (ranks == request.ranks) return backend;
  return MakeError(ErrorCode::kUnsupported, "--tensor-parallel-size", "the {} backend runs on {} rank{}, not on {}",
                   backend->name(), ranks, ranks == 1 ? "" : "s", request.ranks);
}

void LogReady(const Session& session, const BackendRequest& request) {
  const backend::ExecutableCache::Stats stats = session.runner->cache().stats();
  spdlog::info("{} graphs ready on {}: {} from the disk cache, {} compiled; load {:.0f} ms, compile {:.0f} ms",
               session.runner->graphs().size(), request.name, stats.disk_hits, stats.misses, session.load_ms,
               session.compile_ms);
}

}  // namespace

Status Session::RequireTokenizer(const std::string& flag) const {
  if (tokenizer) return {};
  return MakeError(ErrorCode::kInvalidArgument, flag, "{} has no tokenizer; use --prompt-ids", path);
}

void Session::FindStopIds() {
  stop_ids = runner->model().info().eos_ids;
  if (tokenizer) stop_ids.insert(stop_ids.end(), tokenizer->eos_ids().begin(), tokenizer->eos_ids().end());
  std::sort(stop_ids.begin(), stop_ids.end());
  stop_ids.erase(std::unique(stop_ids.begin(), stop_ids.end()), stop_ids.end());
}

Result<std::vector<int32_t>> Session::EncodePrompt(const std::string& text, bool chat) const {
  DI_RETURN_IF_ERROR(RequireTokenizer("--prompt"));
  if (!chat) return tokenizer->Encode(text, {.parse_special = true, .add_special = true});
  text::ChatInput input;
  input.messages.push_back({{"role", "user"}, {"content", text}});
  return tokenizer->EncodeChat(input);
}

Result<std::string> ResolveModel(const std::string& model) {
  if (IsSynthetic(model)) return model;
  std::error_code error;
  if (fs::is_directory(model, error)) {
    // A folder that holds nothing but one GGUF file stands for that file.
    if (!fs::exists(fs::path(model) / "config.json", error)) {
      if (const auto file = SingleGguf(model)) return *file;
    }
    return model;
  }
  if (fs::exists(model, error)) return model;
  std::string tried;
  if (model.find('/') == std::string::npos) {
    for (const fs::path& folder : PackageFolders()) {
      if (const auto file = SingleGguf(folder / model)) return *file;
      tried += fmt::format(", {}", (folder / model).string());
    }
  }
  return MakeError(ErrorCode::kNotFound, "MODEL", "no file, folder or fetched package '{}' (looked for ./{}{})", model,
                   model, tried);
}

Result<std::optional<text::Tokenizer>> LoadTokenizer(const std::string& path) {
  if (IsSynthetic(path)) return std::nullopt;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    if (!fs::exists(fs::path(path) / "tokenizer.json", error)) return std::nullopt;
    DI_ASSIGN_OR_RETURN(text::Tokenizer tokenizer, text::Tokenizer::FromHuggingFaceFolder(path));
    return std::optional<text::Tokenizer>(std::move(tokenizer));
  }
  DI_ASSIGN_OR_RETURN(const formats::GgufFile file, formats::GgufFile::Open(path));
  if (!file.Has("tokenizer.ggml.model")) return std::nullopt;
  DI_ASSIGN_OR_RETURN(text::Tokenizer tokenizer, text::Tokenizer::FromGguf(file));
  return std::optional<text::Tokenizer>(std::move(tokenizer));
}

Result<text::Tokenizer> LoadTokenizerOf(const std::string& model) {
  DI_ASSIGN_OR_RETURN(const std::string path, ResolveModel(model));
  DI_ASSIGN_OR_RETURN(std::optional<text::Tokenizer> tokenizer, LoadTokenizer(path));
  if (!tokenizer) return MakeError(ErrorCode::kFailedPrecondition, "MODEL", "{} has no tokenizer", path);
  return std::move(*tokenizer);
}

void KeepForNextStart(const Session& session) {
  if (const Status kept = session.runner->backend().Persist(); !kept) {
    spdlog::warn("the cache was not written, the next start will be slower: {}", kept.error().ToString());
  }
}

Result<std::unique_ptr<Session>> OpenSession(const ModelFlags& flags, const BackendFactory& backends,
                                             const engine::EngineOptions& engine) {
  const Clock::time_point start = Clock::now();
  auto session = std::make_unique<Session>();
  DI_ASSIGN_OR_RETURN(session->path, ResolveModel(flags.model));
  DI_ASSIGN_OR_RETURN(runner::RunnerOptions options, ToRunnerOptions(flags));
  const TeamPlan team = PlanTeam(flags);
  if (flags.verbose) spdlog::info("{}", ToString(team));
  BackendRequest request;
  request.name = flags.backend;
  request.threads = team.threads;
  request.placement = team.placement;
  request.cache_dir = options.cache_dir;
  request.verify_packed = options.warm_start == backend::WarmStart::kVerified;
  request.plugin = flags.plugin;
  request.ranks = flags.tensor_parallel_size;
  request.numerics = options.numerics;
  request.strict_kernels = flags.strict_kernels;
  options.threads = request.threads;
  if (flags.verbose) options.log = [](const std::string& line) { spdlog::info("{}", line); };

  auto tokenizer = std::async(std::launch::async, LoadTokenizer, session->path);
  {
    const Progress progress("loading " + session->path);
    DI_ASSIGN_OR_RETURN(std::unique_ptr<backend::Backend> backend, OpenBackend(backends, request));
    DI_ASSIGN_OR_RETURN(runner::LoadedModel loaded,
                        runner::LoadModel(session->path, backend->caps(), ToLoadOptions(flags, request.threads)));
    for (const std::string& warning : loaded.warnings) spdlog::warn("{}", warning);
    session->load_ms = MsSince(start);
    DI_ASSIGN_OR_RETURN(session->runner,
                        runner::ModelRunner::Create(std::move(loaded), std::move(backend), std::move(options)));
    for (const std::string& warning : session->runner->backend().warnings()) spdlog::warn("{}", warning);
    session->compile_ms = session->runner->compile_ms();
    DI_ASSIGN_OR_RETURN(session->tokenizer, tokenizer.get());
  }
  session->engine = std::make_unique<engine::Engine>(session->runner.get(), engine);
  session->FindStopIds();
  if (flags.verbose) {
    for (const std::string& note : session->runner->backend().notes()) spdlog::info("{}", note);
    LogReady(*session, request);
  }
  return session;
}

}  // namespace deepinfer::cli
