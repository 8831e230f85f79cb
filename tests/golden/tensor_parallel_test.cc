// Several ranks give what one gives: every architecture on 2 and 4 ranks of the reference backend.
#include <gtest/gtest.h>

#include <cmath>

#include "harness.h"
#include "reference/reference.h"
#include "runner/load.h"

namespace deepinfer::golden {
namespace {

OpenConfig RankConfig(int64_t ranks, DType activations) {
  OpenConfig config;
  config.backend = "reference";
  config.ranks = ranks;
  config.options.activations = activations;
  config.options.max_model_len = 256;
  config.options.max_num_seqs = 4;
  config.options.max_num_batched_tokens = 128;
  return config;
}

// All prompts of a checkpoint in one batch.
std::vector<engine::Answer> RunPrompts(const std::string& name, const OpenConfig& config) {
  const auto runner = MustOpen(OracleFolder(name), config);
  if (runner == nullptr) return {};
  std::vector<engine::GenerationRequest> requests;
  for (const OracleCase& each : LoadOracle(name)) {
    requests.push_back(engine::Request(each.ids, static_cast<int64_t>(each.greedy.size())));
    requests.back().prompt_logits = true;
  }
  return engine::RunAll(runner.get(), requests);
}

struct Distance {
  double of_largest = 0;  // the largest difference, relative to the largest logit
  double of_norm = 0;     // the norm of the differences, relative to that of the logits
};

Distance Compare(const std::vector<float>& right, const std::vector<float>& other) {
  double largest = 0, worst = 0, square = 0, error = 0;
  for (size_t i = 0; i < right.size(); ++i) {
    const double difference = double{right[i]} - other[i];
    largest = std::max(largest, std::abs(double{right[i]}));
    worst = std::max(worst, std::abs(difference));
    square += double{right[i]} * right[i];
    error += difference * difference;
    EXPECT_TRUE(std::isfinite(other[i]));
  }
  return {worst / largest, std::sqrt(error / square)};
}

int64_t LayersOf(const std::string& name) {
  return name.rfind("gemma3", 0) == 0 ? 7 : 3;
}

class TensorParallelTest : public ::testing::TestWithParam<std::string> {};

TEST_P(TensorParallelTest, F32) {
  const std::string name = GetParam() + "_f32";
  // Ranks add up in another order, in two places of each layer: 128 terms at most, so about sqrt(128) roundings of the
  // sum's size, and norms bring every layer's input back to one size.
  const double tolerance = 2 * static_cast<double>(LayersOf(name)) * std::sqrt(128.0) * std::exp2(-24);
  const std::vector<engine::Answer> right = RunPrompts(name, RankConfig(1, DType::kF32));
  for (const int64_t ranks : {2, 4}) {
    SCOPED_TRACE(fmt::format("{} on {} ranks", name, ranks));
    const std::vector<engine::Answer> answers = RunPrompts(name, RankConfig(ranks, DType::kF32));
    ASSERT_EQ(answers.size(), right.size());
    double worst = 0;
    for (size_t i = 0; i < right.size(); ++i) {
      EXPECT_EQ(answers[i].tokens, right[i].tokens);
      ASSERT_EQ(answers[i].prompt_logits.size(), right[i].prompt_logits.size());
      worst = std::max(worst, Compare(right[i].prompt_logits, answers[i].prompt_logits).of_largest);
    }
    EXPECT_LE(worst, tolerance);
    std::printf("%s on %d ranks: largest difference %.1e of the largest logit\n", name.c_str(), static_cast<int>(ranks),
                worst);
  }
}

// Another order may turn a rounding to bf16 around: about a dozen per layer, each of half a unit of 8 bits.
TEST_P(TensorParallelTest, Bf16) {
  const std::string name = GetParam() + "_bf16";
  const double tolerance = std::sqrt(12.0 * static_cast<double>(LayersOf(name))) * std::exp2(-9);
  const std::vector<engine::Answer> right = RunPrompts(name, RankConfig(1, DType::kBF16));
  const std::vector<engine::Answer> answers = RunPrompts(name, RankConfig(2, DType::kBF16));
  ASSERT_EQ(answers.size(), right.size());
  double worst = 0;
  for (size_t i = 0; i < right.size(); ++i) {
    ASSERT_EQ(answers[i].prompt_logits.size(), right[i].prompt_logits.size());
    worst = std::max(worst, Compare(right[i].prompt_logits, answers[i].prompt_logits).of_norm);
  }
  EXPECT_LE(worst, tolerance);
  std::printf("%s on 2 ranks: difference %.1e of the logits' norm\n", name.c_str(), worst);
}

INSTANTIATE_TEST_SUITE_P(All, TensorParallelTest,
                         ::testing::ValuesIn(std::vector<std::string>(std::begin(kFamilies), std::end(kFamilies))),
                         [](const auto& info) { return info.param; });

// One rank's weight in another encoding would make it run another program, and the others wait for it.
TEST(TensorParallelRunnerTest, RanksWithDifferentProgramsAreRefused) {
  auto backend = reference::CreateReferenceBackend({.ranks = 2});
  auto loaded = runner::LoadModel(OracleFolder("llama_f32"), backend->caps(), {DType::kF32});
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  ASSERT_EQ(loaded->types.size(), 2u);
  loaded->types[1].Add("model.layers.1.mlp.up_proj.weight", ir::Type::Weight(Encoding::kBF16, {64, 64}));
  const auto runner =
      runner::ModelRunner::Create(std::move(*loaded), std::move(backend), RankConfig(2, DType::kF32).options);
  ASSERT_FALSE(runner);
  const std::string problem = runner.error().ToString();
  EXPECT_NE(problem.find("rank 1 would run another program than rank 0"), std::string::npos) << problem;
  EXPECT_NE(problem.find("\"model.layers.1.mlp.up_proj.weight\" f32[64,64]"), std::string::npos) << problem;
  EXPECT_NE(problem.find("\"model.layers.1.mlp.up_proj.weight\" bf16[64,64]"), std::string::npos) << problem;
}

TEST(TensorParallelRunnerTest, WhatDoesNotDivideIsNamed) {
  const auto problem = [](int64_t ranks) {
    auto runner = Open(OracleFolder("llama_f32"), RankConfig(ranks, DType::kF32));
    return runner ? "" : runner.error().ToString();
  };
  EXPECT_EQ(problem(3), "--tensor-parallel-size: the model's 4 attention heads do not divide by 3");
  EXPECT_EQ(problem(8), "--tensor-parallel-size: the model's 4 attention heads do not divide by 8");
}

}  // namespace
}  // namespace deepinfer::golden
