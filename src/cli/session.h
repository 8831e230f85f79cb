// A loaded model, ready to run: runner, engine, and the tokenizer if the model has one (a folder without one serves ids
// only). The tokenizer loads beside the weights. One thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/error.h"
#include "cli/model_flags.h"
#include "engine/engine.h"
#include "runner/model_runner.h"
#include "text/tokenizer.h"

namespace deepinfer::cli {

struct BackendRequest {
  std::string name;  // "cpu", "reference", "pjrt"
  int threads = 1;
  TeamPlacement placement;  // of those threads
  std::string cache_dir;
  bool verify_packed = false;  // check every byte kept by an earlier start before it is used
  std::string plugin;          // of pjrt
  int64_t ranks = 1;
  Numerics numerics = Numerics::kNative;
  bool strict_kernels = false;  // an op that only the reference kernel takes is an error
};
// The program's list of backends (apps/). One that cannot run as many ranks may return one with fewer.
using BackendFactory = std::function<Result<std::unique_ptr<backend::Backend>>(const BackendRequest&)>;

struct Session {
  std::string path;  // of the model, resolved
  std::unique_ptr<runner::ModelRunner> runner;
  std::unique_ptr<engine::Engine> engine;
  std::optional<text::Tokenizer> tokenizer;
  std::vector<int32_t> stop_ids;  // of the config and the tokenizer
  double load_ms = 0;             // from the start to weights mapped or converted
  double compile_ms = 0;          // record, compile, capture

  // Fills stop_ids from the model and the tokenizer.
  void FindStopIds();
  // Fails, naming the flag, where text is needed and there is no tokenizer.
  Status RequireTokenizer(const std::string& flag) const;
  // Ids of a prompt: raw (with the BOS the model wants) or as one user message of a chat.
  Result<std::vector<int32_t>> EncodePrompt(const std::string& text, bool chat) const;
};

// The file or folder that a MODEL argument means: itself, or a package below DEEPINFER_MODELS_DIR or ../assets of the
// program.
Result<std::string> ResolveModel(const std::string& model);
// The model's tokenizer alone; nullopt if it has none.
Result<std::optional<text::Tokenizer>> LoadTokenizer(const std::string& path);
// The tokenizer of a MODEL argument; a model without one is an error.
Result<text::Tokenizer> LoadTokenizerOf(const std::string& model);

Result<std::unique_ptr<Session>> OpenSession(const ModelFlags& flags, const BackendFactory& backends,
                                             const engine::EngineOptions& engine = {});

// Writes what makes the next start faster (packed weights). For when nobody waits; a failure is only a warning.
void KeepForNextStart(const Session& session);

}  // namespace deepinfer::cli
