// The flags that every command which loads a model shares. One field list (model_flags.cc): parsing, checks, help and
// what a child process is given come from it; a test compares the help with docs/cli.md. Pure, but for what CLI11
// throws on a wrong command line.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/team_plan.h"
#include "runner/load.h"
#include "runner/model_runner.h"

namespace deepinfer::cli {

struct ModelFlags {
  std::string model;  // a GGUF file, a Hugging Face folder, synthetic:FILE.json, or the name of a fetched package
  std::string backend = "cpu";
  std::string plugin;  // of pjrt; empty: DEEPINFER_PJRT_PLUGIN, else the only one installed
  int threads = 0;     // 0: chosen, and the log says why
  std::string pin_threads = "auto";
  std::string numa = "auto";
  std::string dtype = "bf16";
  std::string numerics = "native";
  bool strict_kernels = false;
  std::string kv_cache_dtype = "auto";
  std::string weights;  // encoding that plain matrices are quantised to; empty: none
  int64_t tensor_parallel_size = 1;
  int64_t max_model_len = 0;
  int64_t max_num_seqs = 32;
  int64_t max_num_batched_tokens = 0;
  std::string kv_cache_memory;  // "512M", "2G", or bytes; empty: the default
  std::string cache_dir;        // empty: the user's cache folder; "none": no cache on disk
  std::string warm_start = "trust";
  bool verbose = false;
};

// The MODEL argument alone.
void AddModelArgument(CLI::App* command, std::string* model);
// MODEL and all flags; what `flags` holds is the default.
void AddModelFlags(CLI::App* command, ModelFlags* flags);
// MODEL and the flags named ("--threads"), for a command where the others mean nothing.
void AddSomeModelFlags(CLI::App* command, const std::vector<std::string>& names, ModelFlags* flags);
// A command line that gives the same ModelFlags: MODEL, then every flag that is not empty or off.
std::vector<std::string> ToArguments(const ModelFlags& flags);

// How many threads, where they run and where their memory lies: as the flags say, or what affinity, quota, cores and
// memory nodes allow. Only the cpu backend pins threads and places memory.
TeamPlan PlanTeam(const ModelFlags& flags);

Result<int64_t> ParseBytes(const std::string& flag, const std::string& text);
runner::LoadOptions ToLoadOptions(const ModelFlags& flags, int threads);
Result<runner::RunnerOptions> ToRunnerOptions(const ModelFlags& flags);
// Of --kv-cache-dtype; none for "auto", which is what the activations are.
std::optional<DType> KvDType(const ModelFlags& flags);
std::string DefaultCacheDir();

}  // namespace deepinfer::cli
