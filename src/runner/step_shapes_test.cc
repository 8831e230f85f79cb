#include "runner/step_shapes.h"

#include <gtest/gtest.h>

#include "models/test_models.h"
#include "runner/record.h"

namespace deepinfer::runner {
namespace {

using Sizes = std::vector<int64_t>;
using models::Phase;

std::unique_ptr<models::Model> SmallModel() {
  auto model = models::CreateFromJson(models::SmallConfig("LlamaForCausalLM"));
  EXPECT_TRUE(model) << model.error().ToString();
  return model ? std::move(*model) : nullptr;
}

StepConfig Resolve(const RunnerOptions& options, const backend::Caps& caps = {}) {
  auto config = ResolveSteps(*SmallModel(), "test", caps, options);
  EXPECT_TRUE(config) << config.error().ToString();
  return config.value_or(StepConfig{});
}

std::string Problem(const RunnerOptions& options, const backend::Caps& caps = {}) {
  auto config = ResolveSteps(*SmallModel(), "test", caps, options);
  return config ? "" : config.error().ToString();
}

TEST(StepShapesTest, DefaultsAreFilledIn) {
  const StepConfig config = Resolve({});
  EXPECT_EQ(config.options.max_model_len, 512) << "the model's";
  EXPECT_EQ(config.options.max_num_batched_tokens, 2048);
  EXPECT_EQ(config.buckets(Phase::kPrefill), Sizes({128, 256, 512, 1024, 2048}));
  EXPECT_EQ(config.buckets(Phase::kDecode), Sizes({1, 2, 4, 8, 16, 32}));
  EXPECT_EQ(config.sizes.max_blocks, 16);
  EXPECT_EQ(config.sizes.blocks, 32 * 1024 / 32 + 1);
  EXPECT_EQ(config.sizes.prefill_requests, 32);
}

TEST(StepShapesTest, TheBackendsLimitsHold) {
  backend::Caps caps;
  caps.max_prefill_requests = 1;
  caps.max_batched_tokens = 256;
  const StepConfig config = Resolve({}, caps);
  EXPECT_EQ(config.sizes.prefill_requests, 1);
  EXPECT_EQ(config.buckets(Phase::kPrefill), Sizes({128, 256}));
  EXPECT_EQ(Problem({.max_num_batched_tokens = 257}, caps),
            "--max-num-batched-tokens: the test backend takes at most 256, got 257");
}

TEST(StepShapesTest, BadOptionsAreNamed) {
  EXPECT_NE(Problem({.max_model_len = 513}).find("--max-model-len"), std::string::npos);
  EXPECT_NE(Problem({.max_num_seqs = 1025}).find("--max-num-seqs"), std::string::npos);
  EXPECT_NE(Problem({.max_num_batched_tokens = -1}).find("--max-num-batched-tokens"), std::string::npos);
  EXPECT_NE(Problem({.block_size = 0}).find("block_size"), std::string::npos);
  EXPECT_NE(Problem({.decode_buckets = {4, 8}}).find("decode_buckets"), std::string::npos);
}

TEST(StepShapesTest, ShapesOfBothPhases) {
  RunnerOptions options;
  options.activations = DType::kF32;
  options.max_model_len = 100;
  options.max_num_seqs = 6;
  options.block_size = 16;
  const StepConfig config = Resolve(options);
  const models::StepShape prefill = config.sizes.ShapeFor(Phase::kPrefill, 128);
  EXPECT_EQ(Sizes({prefill.tokens, prefill.rows, prefill.requests, prefill.max_blocks}), Sizes({128, 6, 6, 7}));
  const models::StepShape decode = config.sizes.ShapeFor(Phase::kDecode, 4);
  EXPECT_EQ(Sizes({decode.tokens, decode.rows, decode.requests, decode.slots}), Sizes({4, 4, 4, 6}));
  EXPECT_EQ(decode.activations, DType::kF32);
  EXPECT_EQ(decode.kv, DType::kF32);
}

// The states that a graph declares are what is allocated for them.
TEST(StepShapesTest, StateBytesAreThoseOfTheGraph) {
  const auto model = SmallModel();
  const StepConfig config = Resolve({.max_num_seqs = 3});
  std::map<std::string, int64_t> declared;
  const auto module =
      RecordGraph(*model, config.sizes.ShapeFor(Phase::kDecode, 2), {models::PlainWeights(*model)}, {{"dce"}, nullptr});
  ASSERT_TRUE(module) << module.error().ToString();
  for (const ir::Input& input : module->entry().inputs) {
    if (input.kind == ir::InputKind::kState) declared[input.buffer] += module->entry().TypeOf(input.value).Bytes();
  }
  EXPECT_EQ(config.sizes.StateBytes(model->States(DType::kBF16, 1)), declared);
}

TEST(StepShapesTest, KvCacheMemoryDecidesTheBlocks) {
  const int64_t per_token = PagedBytesPerToken(SmallModel()->States(DType::kBF16, 1));
  EXPECT_EQ(per_token, 3 * 2 * 2 * 16 * 2);  // layers, k and v, heads, width, bytes
  EXPECT_EQ(Resolve({.max_model_len = 64, .kv_cache_memory = per_token * 32 * 5}).sizes.blocks, 6);
  const std::string problem = Problem({.max_model_len = 64, .kv_cache_memory = per_token * 32});
  EXPECT_NE(problem.find("lower --max-model-len to 32"), std::string::npos) << problem;
}

}  // namespace
}  // namespace deepinfer::runner
