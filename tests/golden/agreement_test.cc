// Real models on 2,000 tokens of ordinary English text: the CPU backend against the reference on the same file.
//
// All go through the text chunk by chunk, side by side, so that no more than one chunk's logits are held.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <optional>
#include <vector>

#include "harness.h"

namespace deepinfer::golden {
namespace {

constexpr int64_t kTokens = 2000;
constexpr int64_t kChunk = 125;  // rows, each with a whole vocabulary of logits

// log of the sum of exp(logits), in double: the differences looked for are of the order of 1e-7.
double LogSumExp(const float* logits, int64_t vocab, double best) {
  double sum = 0;
  for (int64_t i = 0; i < vocab; ++i) sum += std::exp(logits[i] - best);
  return best + std::log(sum);
}

struct Side {
  std::unique_ptr<runner::ModelRunner> runner;
  std::optional<Driver> driver;
  double seconds = 0;
  const float* logits = nullptr;  // of the chunk
  double loss = 0;                // summed over the text
  double kl = 0;                  // of the reference's distribution to this one's, summed
  int64_t same_best = 0;

  bool Run(std::span<const int32_t> tokens) {
    const auto start = std::chrono::steady_clock::now();
    auto output = driver->Prefill(0, tokens, true);
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!output) {
      ADD_FAILURE() << output.error().ToString();
      return false;
    }
    logits = output->logits;
    return true;
  }
};

class AgreementTest : public ::testing::TestWithParam<std::string> {
 protected:
  static bool OpenSide(const std::string& path, const std::string& backend, DType dtype, Side* side,
                       std::optional<DType> kv = std::nullopt, Numerics numerics = Numerics::kNative) {
    OpenConfig config;
    config.backend = backend;
    config.threads = 2;
    config.options.activations = dtype;
    config.options.kv = kv;
    config.options.numerics = numerics;
    config.options.max_model_len = 2048;
    config.options.max_num_seqs = kChunk;
    config.options.max_num_batched_tokens = kChunk;
    config.options.prefill_buckets = {kChunk};
    config.options.decode_buckets = {kChunk};
    config.options.kv_cache_memory = int64_t{512} << 20;
    side->runner = MustOpen(path, config);
    if (side->runner == nullptr) return false;
    side->driver.emplace(side->runner.get(), 1);
    return true;
  }
};

// Of one position.
void Accumulate(const float* right, int64_t vocab, int32_t next, Side* reference, std::span<Side*> sides) {
  const int64_t best = ArgMax(right, vocab);
  const double right_sum = LogSumExp(right, vocab, right[best]);
  if (next >= 0) reference->loss += right_sum - right[next];
  for (Side* side : sides) {
    const float* logits = side->logits;
    const int64_t side_best = ArgMax(logits, vocab);
    const double sum = LogSumExp(logits, vocab, logits[side_best]);
    side->same_best += side_best == best;
    if (next >= 0) side->loss += sum - logits[next];
    double kl = 0;
    for (int64_t i = 0; i < vocab; ++i) {
      const double log_p = right[i] - right_sum;
      if (log_p > -60) kl += std::exp(log_p) * (log_p - (logits[i] - sum));
    }
    side->kl += kl;
  }
}

TEST_P(AgreementTest, CpuAgreesWithTheReference) {
  const Asset asset = FindModel(GetParam());
  DI_NEED_ASSET(asset);
  auto tokens = EnglishTokens(asset.path, kTokens);
  ASSERT_TRUE(tokens) << tokens.error().ToString();

  Side reference;
  Side f32;
  Side bf16;
  Side int8;
  ASSERT_TRUE(OpenSide(asset.path, "reference", DType::kF32, &reference));
  ASSERT_TRUE(OpenSide(asset.path, "cpu", DType::kF32, &f32));
  ASSERT_TRUE(OpenSide(asset.path, "cpu", DType::kBF16, &bf16));
  ASSERT_TRUE(OpenSide(asset.path, "cpu", DType::kBF16, &int8, std::nullopt, Numerics::kInt8));
  const int64_t vocab = reference.runner->model().info().vocab_size;
  Side* sides[] = {&f32, &bf16, &int8};
  for (int64_t begin = 0; begin < kTokens; begin += kChunk) {
    const std::span<const int32_t> chunk(tokens->data() + begin, kChunk);
    ASSERT_TRUE(reference.Run(chunk) && f32.Run(chunk) && bf16.Run(chunk) && int8.Run(chunk));
    for (int64_t i = 0; i < kChunk; ++i) {
      const int32_t next = begin + i + 1 < kTokens ? (*tokens)[begin + i + 1] : -1;
      Accumulate(reference.logits + i * vocab, vocab, next, &reference, sides);
      for (Side* side : sides) side->logits += vocab;
    }
  }
  const auto perplexity = [](const Side& side) { return std::exp(side.loss / (kTokens - 1)); };
  std::printf("%s: reference %.1f s, perplexity %.4f\n", GetParam().c_str(), reference.seconds, perplexity(reference));
  for (const Side* side : sides) {
    std::printf("%s: cpu %s %.1f s, perplexity %.4f, same best token %.2f %%, mean KL %.2e\n", GetParam().c_str(),
                side == &f32    ? "f32"
                : side == &bf16 ? "bf16"
                                : "int8",
                side->seconds, perplexity(*side), 100.0 * side->same_best / kTokens, side->kl / kTokens);
  }
  EXPECT_GE(f32.same_best, static_cast<int64_t>(0.999 * kTokens));
  EXPECT_LE(f32.kl / kTokens, 1e-6);
  EXPECT_NEAR(perplexity(f32) / perplexity(reference), 1, 1e-4);
  EXPECT_GE(bf16.same_best, static_cast<int64_t>(0.98 * kTokens));
  EXPECT_LE(bf16.kl / kTokens, 1e-3);
  EXPECT_NEAR(perplexity(bf16) / perplexity(reference), 1, 0.01);
  EXPECT_GE(int8.same_best, static_cast<int64_t>(0.95 * kTokens));
  EXPECT_LE(int8.kl / kTokens, 5e-3);
  EXPECT_NEAR(perplexity(int8) / perplexity(reference), 1, 0.02);
  // The text is English and the models know it: a broken model that agrees with itself is not enough.
  EXPECT_LT(perplexity(reference), 40);
}

// What a narrower KV cache costs, beside one of f32. A value is off by half a unit in the last place: 2^-12 of itself
// in f16, 2^-9 in bf16, 2^-5 in fp8, and in int8 1/254 of its row's largest. Errors are independent, so the divergence
// grows with their square: the bounds are about twice what was measured, and rank as the types
// do.
struct KvType {
  DType dtype;
  double kl;          // mean, at most
  double same_best;   // share of positions, at least
  double perplexity;  // its ratio's distance from 1, at most
};

class KvTypesTest : public AgreementTest {};

TEST_P(KvTypesTest, NarrowCachesStayNearF32) {
  const Asset asset = FindModel(GetParam());
  DI_NEED_ASSET(asset);
  auto tokens = EnglishTokens(asset.path, kTokens);
  ASSERT_TRUE(tokens) << tokens.error().ToString();
  constexpr KvType kTypes[] = {{DType::kF16, 1e-6, 0.998, 1e-4},
                               {DType::kBF16, 5e-5, 0.99, 1e-3},
                               {DType::kI8, 1e-3, 0.98, 5e-3},
                               {DType::kF8E4M3, 1.2e-2, 0.92, 0.02}};
  Side f32;
  ASSERT_TRUE(OpenSide(asset.path, "cpu", DType::kF32, &f32));
  std::vector<Side> narrow(std::size(kTypes));
  std::vector<Side*> sides;
  for (size_t i = 0; i < narrow.size(); ++i) {
    ASSERT_TRUE(OpenSide(asset.path, "cpu", DType::kF32, &narrow[i], kTypes[i].dtype));
    sides.push_back(&narrow[i]);
  }
  const int64_t vocab = f32.runner->model().info().vocab_size;
  for (int64_t begin = 0; begin < kTokens; begin += kChunk) {
    const std::span<const int32_t> chunk(tokens->data() + begin, kChunk);
    ASSERT_TRUE(f32.Run(chunk));
    for (Side* side : sides) ASSERT_TRUE(side->Run(chunk));
    for (int64_t i = 0; i < kChunk; ++i) {
      const int32_t next = begin + i + 1 < kTokens ? (*tokens)[begin + i + 1] : -1;
      Accumulate(f32.logits + i * vocab, vocab, next, &f32, sides);
      for (Side* side : sides) side->logits += vocab;
    }
  }
  const auto perplexity = [](const Side& side) { return std::exp(side.loss / (kTokens - 1)); };
  for (size_t i = 0; i < narrow.size(); ++i) {
    const Side& side = narrow[i];
    const double ratio = perplexity(side) / perplexity(f32);
    std::printf("%s: KV %s: perplexity %.4f (f32 %.4f), same best token %.2f %%, mean KL %.2e\n", GetParam().c_str(),
                ToString(kTypes[i].dtype), perplexity(side), perplexity(f32), 100.0 * side.same_best / kTokens,
                side.kl / kTokens);
    EXPECT_LE(side.kl / kTokens, kTypes[i].kl);
    EXPECT_GE(side.same_best, static_cast<int64_t>(kTypes[i].same_best * kTokens));
    EXPECT_NEAR(ratio, 1, kTypes[i].perplexity);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, KvTypesTest, ::testing::Values("smollm2"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Models, AgreementTest, ::testing::Values("smollm2", "gemma3"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace deepinfer::golden
