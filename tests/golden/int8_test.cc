// Numerics int8: activations of matrix products in blocks of 8-bit integers. Small checkpoints in q8_0 against the
// reference on the same file; bits do not depend on what a request shares a step with.
#include <gtest/gtest.h>

#include <cmath>

#include "formats/test_files.h"
#include "harness.h"
#include "runner/quantise.h"

namespace deepinfer::golden {
namespace {

using formats::TempFolder;

OpenConfig SmallConfig(Numerics numerics, DType activations) {
  OpenConfig config;
  config.options.numerics = numerics;
  config.options.activations = activations;
  config.options.max_model_len = 256;
  config.options.max_num_seqs = 4;
  config.options.max_num_batched_tokens = 128;
  return config;
}

engine::GenerationRequest Request(const Ids& ids, int64_t tokens) {
  engine::GenerationRequest request = engine::Request(ids, tokens);
  request.prompt_logits = true;
  return request;
}

std::vector<float> PromptLogits(const std::string& path, const OpenConfig& config, const Ids& ids) {
  const auto runner = MustOpen(path, config);
  return runner == nullptr ? std::vector<float>() : engine::RunAll(runner.get(), {Request(ids, 1)})[0].prompt_logits;
}

// Root of the mean square of the difference, relative to that of `wanted`.
double RelativeError(const std::vector<float>& given, const std::vector<float>& wanted) {
  EXPECT_EQ(given.size(), wanted.size());
  double square = 0, error = 0;
  for (size_t i = 0; i < std::min(given.size(), wanted.size()); ++i) {
    square += double{wanted[i]} * wanted[i];
    error += std::pow(double{wanted[i]} - given[i], 2);
  }
  return std::sqrt(error / square);
}

std::string Quantised(const std::string& family, const TempFolder& folder) {
  const std::string file = folder.File(family + ".gguf");
  const auto report = runner::QuantiseModel(OracleFolder(family + "_f32"), file, {.type = Encoding::kQ8_0});
  EXPECT_TRUE(report) << report.error().ToString();
  return file;
}

// A code is off by at most half of amax / 127, as a uniform variable: 1 / (127 * sqrt(12)) of amax, which in a block of
// 32 is about 2.5 times the mean size. So each of the products of a layer adds 0.6 %, and the models here have few
// layers: with seven products in each, 4 % is their sum in squares and a margin.
TEST(Int8Test, LogitsAreAsCloseAsEightBitsAre) {
  const TempFolder folder;
  for (const char* family : kFamilies) {
    SCOPED_TRACE(family);
    const std::string file = Quantised(family, folder);
    const Ids ids = LoadOracle(std::string(family) + "_f32")[0].ids;
    OpenConfig reference = SmallConfig(Numerics::kNative, DType::kF32);
    reference.backend = "reference";
    const std::vector<float> wanted = PromptLogits(file, reference, ids);
    for (const Isa isa : TestedIsas()) {
      OpenConfig config = SmallConfig(Numerics::kInt8, DType::kF32);
      config.isa = isa;
      const double error = RelativeError(PromptLogits(file, config, ids), wanted);
      EXPECT_LE(error, 0.04) << ToString(isa);
      EXPECT_GE(error, 1e-4) << ToString(isa) << ": as exact as f32, so nothing was quantised";
    }
  }
}

TEST(Int8Test, BatchesBucketsChunksAndThreads) {
  const TempFolder folder;
  for (const char* family : {"llama", "qwen3", "gemma3"}) {
    SCOPED_TRACE(family);
    const std::string file = Quantised(family, folder);
    std::vector<engine::GenerationRequest> requests;
    for (const OracleCase& right : LoadOracle(std::string(family) + "_bf16"))
      requests.push_back(Request(right.ids, 16));
    for (const Isa isa : TestedIsas()) {
      std::vector<engine::Answer> alone;
      for (const int64_t tokens : {128, 1, 13}) {
        OpenConfig config = SmallConfig(Numerics::kInt8, DType::kBF16);
        config.isa = isa;
        config.threads = tokens == 13 ? 2 : 1;
        config.options.max_num_batched_tokens = tokens;
        config.options.prefill_buckets = {tokens};
        SCOPED_TRACE(config.Name());
        const auto runner = MustOpen(file, config);
        ASSERT_NE(runner, nullptr);
        if (alone.empty()) {
          for (const auto& request : requests) alone.push_back(engine::RunAll(runner.get(), {request})[0]);
        }
        const std::vector<engine::Answer> batched = engine::RunAll(runner.get(), requests);
        for (size_t i = 0; i < requests.size(); ++i) {
          EXPECT_EQ(batched[i].tokens, alone[i].tokens);
          EXPECT_TRUE(SameBits(batched[i].prompt_logits, alone[i].prompt_logits));
        }
      }
    }
  }
}

}  // namespace
}  // namespace deepinfer::golden
