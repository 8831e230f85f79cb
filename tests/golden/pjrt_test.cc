// A real model through a PJRT plugin: the reference backend's greedy tokens, and logits that differ by the order of
// sums.
#include <gtest/gtest.h>

#include <cmath>

#include "harness.h"
#include "pjrt/test_plugins.h"

namespace deepinfer::golden {
namespace {

constexpr int64_t kTokens = 16;
// Of the largest logit: what f32 arithmetic in another order may change (agreement_test.cc, oracle_test.cc).
constexpr double kTolerance = 2e-4;

class PjrtModelTest : public pjrt::PluginTest {};

// A graph of thirty layers is compiled for many seconds, so there are two: the prompt's and the one for decoding.
Result<std::unique_ptr<runner::ModelRunner>> OpenOn(const std::string& backend, const std::string& plugin,
                                                    const std::string& path) {
  OpenConfig config;
  config.backend = backend;
  config.plugin = plugin;
  config.threads = 2;
  config.options.activations = DType::kF32;
  config.options.max_model_len = 64;
  config.options.max_num_seqs = 1;
  config.options.max_num_batched_tokens = 48;
  config.options.prefill_buckets = {48};
  config.options.decode_buckets = {1};
  return Open(path, config);
}

struct Step {
  int32_t token = -1;
  std::vector<float> logits;
};

std::vector<Step> Generate(runner::ModelRunner* runner, const Ids& prompt) {
  std::vector<Step> steps;
  Driver driver(runner, 1);
  for (int64_t i = 0; i < kTokens; ++i) {
    const auto output = i == 0 ? driver.Prefill(0, prompt, false) : driver.Decode();
    if (!output) {
      ADD_FAILURE() << output.error().ToString();
      break;
    }
    const float* logits = output->logits;
    steps.push_back({output->sampled[0], {logits, logits + runner->model().info().vocab_size}});
  }
  return steps;
}

TEST_P(PjrtModelTest, Smollm2GivesTheReferencesTokens) {
  const Asset asset = FindModel("smollm2");
  DI_NEED_ASSET(asset);
  const Ids prompt = LoadGolden("smollm2").cases.front().ids;
  ASSERT_LE(prompt.size() + kTokens, 64u);
  std::vector<Step> steps[2];
  for (const bool tested : {false, true}) {
    const auto runner = OpenOn(tested ? "pjrt" : "reference", file.path, asset.path);
    ASSERT_TRUE(runner) << runner.error().ToString();
    steps[tested] = Generate(runner->get(), prompt);
    ASSERT_EQ(steps[tested].size(), static_cast<size_t>(kTokens));
  }
  double worst = 0;
  for (int64_t i = 0; i < kTokens; ++i) {
    EXPECT_EQ(steps[1][i].token, steps[0][i].token) << "token " << i;
    double largest = 0;
    double difference = 0;
    for (size_t j = 0; j < steps[0][i].logits.size(); ++j) {
      largest = std::max(largest, std::abs(double{steps[0][i].logits[j]}));
      difference = std::max(difference, std::abs(double{steps[0][i].logits[j]} - steps[1][i].logits[j]));
    }
    EXPECT_LE(difference, kTolerance * largest) << "token " << i;
    worst = std::max(worst, difference / largest);
  }
  std::printf("smollm2 on %s: largest difference %.1e of the largest logit\n", file.name.c_str(), worst);
}

INSTANTIATE_TEST_SUITE_P(Plugins, PjrtModelTest, ::testing::Range(0, pjrt::kMaxTestPlugins));

}  // namespace
}  // namespace deepinfer::golden
