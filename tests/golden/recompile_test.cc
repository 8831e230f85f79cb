// Every graph that requests need is there from the start.
#include <gtest/gtest.h>

#include "harness.h"

namespace deepinfer::golden {
namespace {

// Lengths around a bucket's end, alone and together, greedy and sampled: every graph is there from the start.
TEST(RecompileTest, NothingIsCompiledAfterTheStart) {
  const Asset asset = FindModel("smollm2");
  DI_NEED_ASSET(asset);
  OpenConfig config;
  config.threads = 2;
  config.options.max_model_len = 1100;
  config.options.max_num_seqs = 5;
  config.options.max_num_batched_tokens = 2048;
  const auto runner = MustOpen(asset.path, config);
  ASSERT_NE(runner, nullptr);
  const auto ready = runner->cache().stats();
  EXPECT_EQ(ready.misses, static_cast<int64_t>(runner->graphs().size()));
  for (const int64_t length : {1, 127, 128, 129, 1000}) {
    for (const int rows : {1, 3, 5}) {
      for (const double temperature : {0.0, 0.9}) {
        std::vector<engine::GenerationRequest> requests;
        for (int row = 0; row < rows; ++row) {
          Ids prompt;
          for (int64_t i = 0; i < length; ++i) prompt.push_back(static_cast<int32_t>(1000 + (i * 7 + row) % 5000));
          requests.push_back(engine::Request(prompt, 3, temperature));
          requests.back().params.seed = static_cast<uint64_t>(row);
          requests.back().params.ignore_eos = true;
        }
        for (const engine::Answer& answer : engine::RunAll(runner.get(), requests)) {
          EXPECT_EQ(answer.tokens.size(), 3u);
          EXPECT_EQ(answer.reason, engine::FinishReason::kLength);
        }
        ASSERT_EQ(runner->cache().compiles_after_ready(), 0) << length << " tokens, " << rows << " rows";
      }
    }
  }
  EXPECT_EQ(runner->cache().stats().misses, ready.misses);
}

}  // namespace
}  // namespace deepinfer::golden
