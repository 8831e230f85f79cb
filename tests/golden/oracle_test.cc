// Tiny checkpoints of every architecture against what another implementation answered, on every backend.
#include <gtest/gtest.h>

#include <cmath>

#include "harness.h"
#ifdef DI_HAVE_PJRT
#include "pjrt/test_plugins.h"
#endif

namespace deepinfer::golden {
namespace {

// Of the largest logit: what f32 arithmetic in another order may change (the checkpoints' own `drift` is below 2e-6).
constexpr double kTolerance = 2e-4;
constexpr int64_t kVocab = 320;

class OracleTest : public ::testing::TestWithParam<std::string> {};

void Compare(const std::string& name, const OpenConfig& config) {
  SCOPED_TRACE(name + " on " + config.Name());
  const auto runner = MustOpen(OracleFolder(name), config);
  ASSERT_NE(runner, nullptr);
  double worst = 0;
  for (const OracleCase& right : LoadOracle(name)) {
    engine::GenerationRequest request = engine::Request(right.ids, static_cast<int64_t>(right.greedy.size()));
    request.prompt_logits = true;
    const engine::Answer answer = engine::RunAll(runner.get(), {request})[0];
    EXPECT_EQ(answer.tokens, right.greedy);
    ASSERT_EQ(answer.prompt_logits.size(), right.logits.size());
    double largest = 0;
    double difference = 0;
    for (size_t i = 0; i < right.logits.size(); ++i) {
      largest = std::max(largest, std::abs(double{right.logits[i]}));
      difference = std::max(difference, std::abs(double{right.logits[i]} - answer.prompt_logits[i]));
      ASSERT_TRUE(std::isfinite(answer.prompt_logits[i]));
    }
    EXPECT_LE(difference, kTolerance * largest) << right.ids.size() << " tokens";
    worst = std::max(worst, difference / largest);
  }
  std::printf("%s on %s: largest difference %.1e of the largest logit\n", name.c_str(), config.Name().c_str(), worst);
}

OpenConfig SmallConfig() {
  OpenConfig config;
  config.options.activations = DType::kF32;
  config.options.max_model_len = 256;
  config.options.max_num_seqs = 4;
  config.options.max_num_batched_tokens = 128;
  return config;
}

TEST_P(OracleTest, Reference) {
  OpenConfig config = SmallConfig();
  config.backend = "reference";
  Compare(GetParam(), config);
}

TEST_P(OracleTest, CpuOnEveryInstructionSet) {
  OpenConfig config = SmallConfig();
  for (const Isa isa : TestedIsas()) {
    config.isa = isa;
    Compare(GetParam(), config);
  }
}

// bf16 activations: 8 bits of mantissa, about a dozen roundings on the way through three layers (seven of gemma3). A
// wrong scale, mask or rotation is far outside; exact tokens are not asked for.
void CompareBf16(const std::string& name, OpenConfig config) {
  config.options.activations = DType::kBF16;
  SCOPED_TRACE(name + " on " + config.Name());
  const auto runner = MustOpen(OracleFolder(name), config);
  ASSERT_NE(runner, nullptr);
  for (const OracleCase& right : LoadOracle(name)) {
    engine::GenerationRequest request = engine::Request(right.ids);
    request.prompt_logits = true;
    const engine::Answer answer = engine::RunAll(runner.get(), {request})[0];
    ASSERT_EQ(answer.prompt_logits.size(), right.logits.size());
    double square = 0;
    double error = 0;
    for (size_t i = 0; i < right.logits.size(); ++i) {
      square += double{right.logits[i]} * right.logits[i];
      error += std::pow(double{right.logits[i]} - answer.prompt_logits[i], 2);
    }
    EXPECT_LE(std::sqrt(error / square), 0.03) << right.ids.size() << " tokens";
  }
}

// Where two experts are nearly equally probable, bf16 may choose the other: answers need not be close then.
TEST_P(OracleTest, Bf16StaysClose) {
  if (GetParam().starts_with("qwen3_moe")) GTEST_SKIP() << "a rounding may choose other experts";
  CompareBf16(GetParam(), SmallConfig());
}

std::vector<std::string> Checkpoints() {
  std::vector<std::string> names;
  for (const char* family : kFamilies) {
    for (const char* stored : {"_f32", "_bf16"}) names.push_back(std::string(family) + stored);
  }
  for (const char* experts : kExpertCheckpoints) names.push_back(experts);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, OracleTest, ::testing::ValuesIn(Checkpoints()),
                         [](const auto& info) { return info.param; });

#ifdef DI_HAVE_PJRT
// The same on plugins, of which each graph is compiled for a second or so: one bucket per phase.
class PjrtOracleTest : public pjrt::PluginParamTest<std::tuple<int, std::string>> {
 protected:
  int Number() const override { return std::get<0>(GetParam()); }
  static const std::string& Checkpoint() { return std::get<1>(GetParam()); }

  OpenConfig Config() const {
    OpenConfig config = SmallConfig();
    config.backend = "pjrt";
    config.plugin = file.path;
    config.options.prefill_buckets = {config.options.max_num_batched_tokens};
    config.options.decode_buckets = {config.options.max_num_seqs};
    return config;
  }
};
class PjrtBf16Test : public PjrtOracleTest {};

TEST_P(PjrtOracleTest, AnswersAsTheOracle) {
  Compare(Checkpoint(), Config());
}

TEST_P(PjrtBf16Test, StaysClose) {
  CompareBf16(Checkpoint(), Config());
}

std::string PjrtTestName(const testing::TestParamInfo<std::tuple<int, std::string>>& info) {
  return fmt::format("{}_{}", std::get<0>(info.param), std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(First, PjrtOracleTest, testing::Combine(testing::Values(0), testing::ValuesIn(Checkpoints())),
                         PjrtTestName);
INSTANTIATE_TEST_SUITE_P(Others, PjrtOracleTest,
                         testing::Combine(testing::Range(1, pjrt::kMaxTestPlugins),
                                          testing::Values("llama_f32", "qwen2_bf16", "qwen3_f32", "gemma3_bf16")),
                         PjrtTestName);
INSTANTIATE_TEST_SUITE_P(All, PjrtBf16Test,
                         testing::Combine(testing::Range(0, pjrt::kMaxTestPlugins),
                                          testing::Values("llama_bf16", "gemma3_f32")),
                         PjrtTestName);
#endif

}  // namespace
}  // namespace deepinfer::golden
