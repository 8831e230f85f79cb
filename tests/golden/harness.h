// What the tests of this folder share: a model opened on a backend, steps driven by hand without an engine, stored
// answers, and real models where they have been fetched. Not thread-safe.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/cpu_features.h"
#include "engine/test_util.h"
#include "runner/model_runner.h"
#include "text/tokenizer.h"

namespace deepinfer::golden {

using Ids = std::vector<int32_t>;

struct OpenConfig {
  std::string backend = "cpu";  // or "reference", "pjrt"
  std::string plugin;           // of pjrt: a path
  Isa isa = *SelectIsa("");
  int threads = 1;
  int64_t ranks = 1;              // of the reference and of pjrt
  runner::RunnerOptions options;  // cache_dir is the backend's as well

  std::string Name() const;  // for failures: "cpu avx2, 2 threads, f32"
};

Result<std::unique_ptr<runner::ModelRunner>> Open(const std::string& path, const OpenConfig& config);
// Null, with a failure, if it cannot be opened.
std::unique_ptr<runner::ModelRunner> MustOpen(const std::string& path, const OpenConfig& config);

// Instruction sets with kernels that this machine has.
std::vector<Isa> TestedIsas();

// Requests of one model, driven step by step. Each has its own slot and blocks; the blocks of all are interleaved, so
// that no table is a plain range.
class Driver {
 public:
  Driver(runner::ModelRunner* runner, int64_t requests, runner::PlannedRow row = {});

  // The next tokens of one request. A row for each of them, or for the last alone.
  Result<runner::StepOutput> Prefill(int64_t request, std::span<const int32_t> tokens, bool every_row);
  // One token more of every request, taken from the token store. No allocation after the first call.
  Result<runner::StepOutput> Decode();

  int64_t position(int64_t request) const { return requests_[request].position; }

 private:
  struct State {
    int32_t position = 0;
    std::vector<int32_t> blocks;
  };
  void AddTokens(int64_t request, std::span<const int32_t> tokens);

  runner::ModelRunner* runner_;
  runner::PlannedRow row_;
  std::vector<State> requests_;
  runner::StepPlan plan_;
};

// tests/data/oracle.
struct OracleCase {
  Ids ids;
  Ids greedy;
  std::vector<float> logits;  // [ids, vocab]
};
std::string OracleFolder(const std::string& name);
std::vector<OracleCase> LoadOracle(const std::string& name);
inline const char* const kExpertCheckpoints[] = {"qwen3_moe_f32", "qwen3_moe_bf16"};
inline const char* const kFamilies[] = {"llama", "llama_tied", "qwen2", "qwen3", "qwen3_yarn", "gemma3"};

// tests/data/goldens.
struct GoldenCase {
  std::string prompt;
  Ids ids;
  Ids top10_ids;
  std::vector<float> top10_logits;
  Ids greedy;
  std::vector<double> margins;
};
struct Golden {
  bool chat = false;
  std::vector<GoldenCase> cases;
};
Golden LoadGolden(const std::string& name);
// Of goldens/portable.json; empty if there is none of that name.
std::string StoredDigest(const std::string& name);

// A file of the fetched models, below DEEPINFER_MODELS_DIR or build/assets; empty if it is not there, and then
// `missing` says so.
struct Asset {
  std::string path;
  std::string missing;
};
Asset FindModel(const std::string& package);  // "smollm2", "gemma3"
// Whether DEEPINFER_REQUIRE_ASSETS=1 says that every asset has been fetched.
bool AssetsRequired();
// The first `count` tokens of tests/data/english.txt, prose written for this, with the model's BOS in front.
Result<Ids> EnglishTokens(const std::string& model_path, int64_t count);
Result<text::Tokenizer> OpenTokenizer(const std::string& model_path);

int64_t ArgMax(const float* values, int64_t count);
// Checks equality bit for bit and names the first difference.
::testing::AssertionResult SameBits(std::span<const float> left, std::span<const float> right);

}  // namespace deepinfer::golden

// Ends a test whose asset is missing.
#define DI_NEED_ASSET(asset)                                              \
  if ((asset).path.empty()) {                                             \
    if (::deepinfer::golden::AssetsRequired()) FAIL() << (asset).missing; \
    GTEST_SKIP() << (asset).missing;                                      \
  }                                                                       \
  static_assert(true)
