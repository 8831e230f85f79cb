// For this room's tests: a synthetic model whose tokens are known, on the CPU backend.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/cpu_features.h"
#include "cpu/cpu_backend.h"
#include "engine/test_util.h"
#include "formats/test_files.h"
#include "runner/load.h"

namespace deepinfer::engine {

using Ids = std::vector<int32_t>;

inline Result<std::unique_ptr<runner::ModelRunner>> OpenOnCpu(const std::string& path, runner::RunnerOptions options,
                                                              int threads = 1) {
  auto backend = std::make_unique<cpu::CpuBackend>(cpu::CpuOptions{threads, *SelectIsa(""), ""});
  DI_ASSIGN_OR_RETURN(runner::LoadedModel loaded,
                      runner::LoadModel(path, backend->caps(), {options.activations, threads}));
  return runner::ModelRunner::Create(std::move(loaded), std::move(backend), std::move(options));
}

// Null, with a failure, if it cannot be opened.
inline std::unique_ptr<runner::ModelRunner> MustOpenOnCpu(const std::string& path, runner::RunnerOptions options,
                                                          int threads = 1) {
  auto runner = OpenOnCpu(path, std::move(options), threads);
  if (!runner) ADD_FAILURE() << runner.error().ToString();
  return runner ? std::move(*runner) : nullptr;
}

inline std::unique_ptr<runner::ModelRunner> OpenScripted(const nlohmann::json& script, runner::RunnerOptions options) {
  const formats::TempFolder folder;
  return MustOpenOnCpu("synthetic:" + folder.Write("script.json", script.dump()), std::move(options));
}

// Scripts of several lengths that share beginnings and repeat tokens. The script of a prompt: its first token mod 5.
inline nlohmann::json FiveScripts() {
  std::vector<Ids> scripts = {{5, 6, 7, 8, 9, 10}, {11, 12}, {5, 5, 5, 6}, {}, {}};
  for (int i = 0; i < 40; ++i) scripts[3].push_back(20 + i % 7);
  for (int i = 0; i < 90; ++i) scripts[4].push_back(100 + i);
  return {{"vocab_size", 320}, {"scripts", scripts}, {"eos_ids", {2}}, {"max_positions", 512}};
}

// The script's tokens, with the end-of-sequence token if there is room for it.
inline Ids Expected(const nlohmann::json& json, const Ids& prompt, int64_t max_tokens) {
  const auto& scripts = json["scripts"];
  Ids tokens = scripts[static_cast<size_t>(prompt.front()) % scripts.size()].get<Ids>();
  tokens.push_back(json["eos_ids"][0].get<int32_t>());
  if (max_tokens >= 0 && static_cast<int64_t>(tokens.size()) > max_tokens)
    tokens.resize(static_cast<size_t>(max_tokens));
  return tokens;
}

// A prompt of `length` tokens that asks for script `script` and holds no script's first token elsewhere.
inline Ids Prompt(int32_t script, int64_t length) {
  Ids prompt = {200 + script};
  for (int64_t i = 1; i < length; ++i) prompt.push_back(static_cast<int32_t>(210 + i % 90));
  return prompt;
}

inline GenerationRequest ScriptRequest(int32_t script, int64_t length, int64_t max_tokens = -1) {
  GenerationRequest request = Request(Prompt(script, length), max_tokens);
  request.stop_ids = {2};
  return request;
}

inline runner::RunnerOptions SmallOptions(int64_t max_num_seqs, int64_t max_num_batched_tokens) {
  runner::RunnerOptions options;
  options.activations = DType::kF32;
  options.max_model_len = 256;
  options.max_num_seqs = max_num_seqs;
  options.max_num_batched_tokens = max_num_batched_tokens;
  options.block_size = 16;
  return options;
}

// The same with KV blocks for `contexts` full contexts only, so that sequences push each other out.
inline runner::RunnerOptions TightOptions(runner::RunnerOptions options, int64_t contexts = 1) {
  const auto runner = OpenScripted(FiveScripts(), options);
  if (runner == nullptr) return options;
  const int64_t token_store = (options.max_num_seqs + 1) * 4;
  const int64_t per_block = (runner->state_bytes() - token_store) / runner->num_blocks();
  options.kv_cache_memory = per_block * runner->max_blocks() * contexts;
  return options;
}

// A model whose logits are spread out: the tiny stored one.
inline std::unique_ptr<runner::ModelRunner> OpenTinyLlama(const runner::RunnerOptions& options) {
  const bool bf16 = options.activations == DType::kBF16;
  return MustOpenOnCpu(std::string(DI_SOURCE_DIR) + "/tests/data/oracle/llama_" + (bf16 ? "bf16" : "f32"), options);
}

}  // namespace deepinfer::engine
