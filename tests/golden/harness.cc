#include "harness.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/env.h"
#include "cpu/cpu_backend.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#ifdef DI_HAVE_PJRT
#include "pjrt/pjrt_backend.h"
#endif
#include "reference/reference.h"
#include "runner/load.h"

namespace deepinfer::golden {
namespace fs = std::filesystem;
namespace {

const std::string kData = std::string(DI_SOURCE_DIR) + "/tests/data/";

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

template <class To, class From>
std::vector<To> Tensor(const formats::SafetensorsFile& file, const std::string& name) {
  const formats::SafetensorsTensor* tensor = file.FindTensor(name);
  if (tensor == nullptr) {
    ADD_FAILURE() << file.path() << " has no " << name;
    return {};
  }
  std::vector<From> values(tensor->data.size() / sizeof(From));
  std::memcpy(values.data(), tensor->data.data(), tensor->data.size());
  return std::vector<To>(values.begin(), values.end());
}

}  // namespace

std::string OpenConfig::Name() const {
  return fmt::format("{} {}{}, {} threads, {}, KV {}, {} seqs, {} batched tokens", backend,
                     backend == "cpu" ? ToString(isa) : fs::path(plugin).stem().string(),
                     ranks > 1 ? fmt::format(" on {} ranks", ranks) : "", threads, ToString(options.activations),
                     ToString(options.kv.value_or(options.activations)), options.max_num_seqs,
                     options.max_num_batched_tokens);
}

Result<std::unique_ptr<runner::ModelRunner>> Open(const std::string& path, const OpenConfig& config) {
  std::unique_ptr<backend::Backend> backend;
  if (config.backend == "reference") {
    backend = reference::CreateReferenceBackend({.threads = config.threads, .ranks = config.ranks});
#ifdef DI_HAVE_PJRT
  } else if (config.backend == "pjrt") {
    DI_ASSIGN_OR_RETURN(backend, pjrt::CreatePjrtBackend({config.plugin, config.options.cache_dir, config.ranks}));
#endif
  } else {
    backend = std::make_unique<cpu::CpuBackend>(cpu::CpuOptions{
        .threads = config.threads,
        .isa = config.isa,
        .cache_dir = config.options.cache_dir,
        .numerics = config.options.numerics,
    });
  }
  DI_ASSIGN_OR_RETURN(runner::LoadedModel loaded,
                      runner::LoadModel(path, backend->caps(), {config.options.activations, config.threads}));
  runner::RunnerOptions options = config.options;
  options.threads = config.threads;
  return runner::ModelRunner::Create(std::move(loaded), std::move(backend), std::move(options));
}

std::unique_ptr<runner::ModelRunner> MustOpen(const std::string& path, const OpenConfig& config) {
  auto runner = Open(path, config);
  if (!runner) ADD_FAILURE() << config.Name() << ": " << runner.error().ToString();
  return runner ? std::move(*runner) : nullptr;
}

std::vector<Isa> TestedIsas() {
  return MachineIsas();
}

Driver::Driver(runner::ModelRunner* runner, int64_t requests, runner::PlannedRow row)
    : runner_(runner), row_(row), requests_(static_cast<size_t>(requests)) {
  const int64_t blocks = std::min(runner->max_blocks(), (runner->num_blocks() - 1) / requests);
  for (int64_t request = 0; request < requests; ++request) {
    for (int64_t i = 0; i < blocks; ++i) {
      requests_[request].blocks.push_back(static_cast<int32_t>(1 + i * requests + request));
    }
  }
}

void Driver::AddTokens(int64_t request, std::span<const int32_t> tokens) {
  const int64_t block_size = runner_->options().block_size;
  State& state = requests_[request];
  for (const int32_t token : tokens) {
    plan_.tokens.push_back(token);
    plan_.positions.push_back(state.position);
    const int64_t block = state.blocks.at(state.position / block_size);
    plan_.slots.push_back(static_cast<int32_t>(block * block_size + state.position % block_size));
    ++state.position;
  }
  plan_.query_start.push_back(static_cast<int32_t>(plan_.num_tokens()));
  plan_.block_tables.push_back(&state.blocks);
}

Result<runner::StepOutput> Driver::Prefill(int64_t request, std::span<const int32_t> tokens, bool every_row) {
  plan_.Clear();
  plan_.phase = models::Phase::kPrefill;
  AddTokens(request, tokens);
  const int32_t count = static_cast<int32_t>(tokens.size());
  for (int32_t token = every_row ? 0 : count - 1; token < count; ++token) {
    runner::PlannedRow row = row_;
    row.token = token;
    row.commit_slot = token == count - 1 ? static_cast<int32_t>(request) : -1;
    plan_.rows.push_back(row);
  }
  return runner_->Run(plan_);
}

Result<runner::StepOutput> Driver::Decode() {
  plan_.Clear();
  plan_.phase = models::Phase::kDecode;
  static constexpr int32_t kFromStore[] = {-1};
  for (int32_t request = 0; request < static_cast<int32_t>(requests_.size()); ++request) {
    AddTokens(request, kFromStore);
    plan_.token_slots.push_back(request);
    runner::PlannedRow row = row_;
    row.token = request;
    row.commit_slot = request;
    plan_.rows.push_back(row);
  }
  return runner_->Run(plan_);
}

std::string OracleFolder(const std::string& name) {
  return kData + "oracle/" + name;
}

std::vector<OracleCase> LoadOracle(const std::string& name) {
  auto file = formats::SafetensorsFile::Open(OracleFolder(name) + "/oracle.safetensors");
  if (!file) {
    ADD_FAILURE() << file.error().ToString();
    return {};
  }
  std::vector<OracleCase> cases;
  for (int i = 0; i < 3; ++i) {
    cases.push_back({Tensor<int32_t, int64_t>(*file, fmt::format("ids_{}", i)),
                     Tensor<int32_t, int64_t>(*file, fmt::format("greedy_{}", i)),
                     Tensor<float, float>(*file, fmt::format("logits_{}", i))});
  }
  return cases;
}

Golden LoadGolden(const std::string& name) {
  const auto json = nlohmann::json::parse(ReadAll(kData + "goldens/" + name + ".json"));
  Golden golden;
  golden.chat = json.at("chat");
  for (const auto& entry : json.at("cases")) {
    golden.cases.push_back({entry.at("prompt"), entry.at("ids"), entry.at("top10_ids"), entry.at("top10_logits"),
                            entry.at("greedy"), entry.at("margins")});
  }
  return golden;
}

std::string StoredDigest(const std::string& name) {
  return nlohmann::json::parse(ReadAll(kData + "goldens/portable.json")).value(name, "");
}

Asset FindModel(const std::string& package) {
  std::string folder = GetEnv("DEEPINFER_MODELS_DIR");
  if (folder.empty()) folder = DI_SOURCE_DIR "/build/assets";
  folder += "/" + package;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".gguf") return {entry.path().string(), ""};
  }
  return {"", folder + " holds no GGUF file (scripts/fetch_assets.sh, or DEEPINFER_MODELS_DIR)"};
}

bool AssetsRequired() {
  return GetEnv("DEEPINFER_REQUIRE_ASSETS") == "1";
}

Result<text::Tokenizer> OpenTokenizer(const std::string& model_path) {
  DI_ASSIGN_OR_RETURN(const formats::GgufFile file, formats::GgufFile::Open(model_path));
  return text::Tokenizer::FromGguf(file);
}

Result<Ids> EnglishTokens(const std::string& model_path, int64_t count) {
  const std::string path = kData + "english.txt";
  const std::string english = ReadAll(path);
  if (english.empty()) return MakeError(ErrorCode::kNotFound, path, "missing or empty");
  DI_ASSIGN_OR_RETURN(const text::Tokenizer tokenizer, OpenTokenizer(model_path));
  DI_ASSIGN_OR_RETURN(Ids ids, tokenizer.Encode(english, {.parse_special = false, .add_special = true}));
  if (static_cast<int64_t>(ids.size()) < count) {
    return MakeError(ErrorCode::kInvalidArgument, path, "has {} tokens, wanted {}", ids.size(), count);
  }
  ids.resize(static_cast<size_t>(count));
  return ids;
}

int64_t ArgMax(const float* values, int64_t count) {
  return std::max_element(values, values + count) - values;
}

::testing::AssertionResult SameBits(std::span<const float> left, std::span<const float> right) {
  if (left.size() != right.size())
    return ::testing::AssertionFailure() << left.size() << " and " << right.size() << " values";
  if (std::memcmp(left.data(), right.data(), left.size_bytes()) == 0) return ::testing::AssertionSuccess();
  size_t differing = 0;
  size_t first = left.size();
  for (size_t i = 0; i < left.size(); ++i) {
    if (std::memcmp(&left[i], &right[i], sizeof(float)) == 0) continue;
    first = std::min(first, i);
    ++differing;
  }
  return ::testing::AssertionFailure() << differing << " of " << left.size() << " values differ, first at " << first
                                       << ": " << left[first] << " and " << right[first];
}

}  // namespace deepinfer::golden
