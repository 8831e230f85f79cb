// The two real models on four prompts each: token ids of the prompt, the ten best logits, and, fed the golden tokens,
// the best next token wherever it is not too close a call.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "harness.h"

namespace deepinfer::golden {
namespace {

constexpr double kMarginF32 = 0.02;
constexpr double kMarginBf16 = 0.15;
// The stored logits have four decimals. Of logits of about 20: f32 has 24 bits for them, bf16
// activations 8, whose errors partly cancel out (measured: 0.0001 and 0.13).
constexpr double kLogitsF32 = 0.001;
constexpr double kLogitsBf16 = 0.3;

class GoldensTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const Asset asset = FindModel(GetParam());
    DI_NEED_ASSET(asset);
    path_ = asset.path;
    golden_ = LoadGolden(GetParam());
  }

  static OpenConfig ConfigFor(const std::string& backend, DType dtype) {
    OpenConfig config;
    config.backend = backend;
    config.threads = 2;
    config.options.activations = dtype;
    config.options.max_model_len = 128;
    config.options.max_num_seqs = 48;
    config.options.max_num_batched_tokens = 128;
    config.options.prefill_buckets = {48, 128};
    config.options.decode_buckets = {48};
    return config;
  }

  // Feeds `count` of the golden tokens.
  void Check(runner::ModelRunner* runner, const GoldenCase& golden, int64_t count, double margin, double tolerance) {
    SCOPED_TRACE(golden.prompt);
    const int64_t vocab = runner->model().info().vocab_size;
    Driver driver(runner, 1);
    auto output = driver.Prefill(0, golden.ids, false);
    ASSERT_TRUE(output) << output.error().ToString();
    double worst = 0;
    for (size_t i = 0; i < golden.top10_ids.size(); ++i) {
      worst = std::max(worst, std::abs(double{golden.top10_logits[i]} - output->logits[golden.top10_ids[i]]));
    }
    EXPECT_LE(worst, tolerance) << "of the ten best logits";
    if (golden.margins[0] >= margin) {
      EXPECT_EQ(ArgMax(output->logits, vocab), golden.greedy[0]);
    }
    EXPECT_EQ(output->sampled[0], ArgMax(output->logits, vocab));
    const Ids fed(golden.greedy.begin(), golden.greedy.begin() + count - 1);
    output = driver.Prefill(0, fed, true);
    ASSERT_TRUE(output) << output.error().ToString();
    int64_t close_calls = golden.margins[0] < margin;
    int64_t other = 0;
    for (int64_t n = 1; n < count; ++n) {
      const int64_t best = ArgMax(output->logits + (n - 1) * vocab, vocab);
      close_calls += golden.margins[n] < margin;
      other += best != golden.greedy[n];
      if (golden.margins[n] >= margin) {
        EXPECT_EQ(best, golden.greedy[n]) << "token " << n << ", margin " << golden.margins[n];
      }
    }
    std::printf("%s: ten best logits within %.4f; %lld of %lld tokens differ, %lld close calls\n",
                golden.prompt.c_str(), worst, static_cast<long long>(other), static_cast<long long>(count),
                static_cast<long long>(close_calls));
  }

  std::string path_;
  Golden golden_;
};

TEST_P(GoldensTest, PromptsEncodeToTheGoldenIds) {
  auto tokenizer = OpenTokenizer(path_);
  ASSERT_TRUE(tokenizer) << tokenizer.error().ToString();
  for (const GoldenCase& golden : golden_.cases) {
    text::ChatInput chat;
    chat.messages.push_back({{"role", "user"}, {"content", golden.prompt}});
    auto ids = golden_.chat ? tokenizer->EncodeChat(chat)
                            : tokenizer->Encode(golden.prompt, {.parse_special = true, .add_special = true});
    ASSERT_TRUE(ids) << ids.error().ToString();
    EXPECT_EQ(*ids, golden.ids) << golden.prompt;
  }
}

TEST_P(GoldensTest, CpuF32) {
  const auto runner = MustOpen(path_, ConfigFor("cpu", DType::kF32));
  ASSERT_NE(runner, nullptr);
  for (const GoldenCase& golden : golden_.cases) {
    Check(runner.get(), golden, static_cast<int64_t>(golden.greedy.size()), kMarginF32, kLogitsF32);
  }
}

TEST_P(GoldensTest, CpuBf16) {
  const auto runner = MustOpen(path_, ConfigFor("cpu", DType::kBF16));
  ASSERT_NE(runner, nullptr);
  for (const GoldenCase& golden : golden_.cases) {
    Check(runner.get(), golden, static_cast<int64_t>(golden.greedy.size()), kMarginBf16, kLogitsBf16);
  }
}

TEST_P(GoldensTest, Reference) {
  OpenConfig config = ConfigFor("reference", DType::kF32);
  config.options.max_num_seqs = 11;
  config.options.max_num_batched_tokens = 48;
  config.options.prefill_buckets = {11, 48};
  config.options.decode_buckets = {11};
  const auto runner = MustOpen(path_, config);
  ASSERT_NE(runner, nullptr);
  Check(runner.get(), golden_.cases.front(), 12, kMarginF32, kLogitsF32);
}

INSTANTIATE_TEST_SUITE_P(Models, GoldensTest, ::testing::Values("smollm2", "gemma3"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace deepinfer::golden
