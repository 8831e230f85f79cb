// The prefix cache on a real model: a hit gives the bits of a cold run, on every instruction set of this machine.
#include <gtest/gtest.h>

#include "prefix_checks.h"

namespace deepinfer::golden {
namespace {

TEST(PrefixModelTest, SmolLm2) {
  const Asset asset = FindModel("smollm2");
  DI_NEED_ASSET(asset);
  auto english = EnglishTokens(asset.path, 150);
  ASSERT_TRUE(english) << english.error().ToString();
  const std::vector<Ids> prompts = {Ids(english->begin(), english->begin() + 96), *english};
  for (const Isa isa : TestedIsas()) {
    for (const DType dtype : {DType::kBF16, DType::kF32}) {
      if (dtype == DType::kF32 && isa != TestedIsas().back()) continue;
      OpenConfig config;
      config.isa = isa;
      config.threads = 2;
      config.options.activations = dtype;
      config.options.max_model_len = 512;
      config.options.max_num_seqs = 6;
      config.options.max_num_batched_tokens = 128;
      SCOPED_TRACE(config.Name());
      const auto runner = MustOpen(asset.path, config);
      ASSERT_NE(runner, nullptr);
      ExpectPrefixesChangeNoBit(runner.get(), prompts, 16);
      ExpectChoicesAreAlone(runner.get(), {prompts[1]}, 8);
    }
  }
}

}  // namespace
}  // namespace deepinfer::golden
