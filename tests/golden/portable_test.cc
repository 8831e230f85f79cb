// Portable numerics on whole models: the bits of logits and the tokens are those of every instruction set, and those
// stored in tests/data/goldens/portable.json, which every machine must give.
#include <gtest/gtest.h>
#include <xxhash.h>

#include "cpu/kernels/linear/amx_emulator.h"
#include "harness.h"

namespace deepinfer::golden {
namespace {

// With AMX by the emulator if the machine has none.
std::vector<Isa> Isas() {
  std::vector<Isa> isas = TestedIsas();
  if (isas.back() == Isa::kAvx512Bf16 && cpu::EnableAmxForTests()) isas.push_back(Isa::kAmx);
  return isas;
}

OpenConfig PortableConfig(DType activations) {
  OpenConfig config;
  config.options.activations = activations;
  config.options.numerics = Numerics::kPortable;
  config.options.max_model_len = 256;
  config.options.max_num_seqs = 4;
  config.options.max_num_batched_tokens = 128;
  return config;
}

// Of the bits of all prompts' logits, then of greedy tokens with their log-probabilities, then of sampled tokens.
std::string Digest(runner::ModelRunner* runner, const std::vector<Ids>& prompts, int64_t tokens) {
  std::vector<engine::GenerationRequest> requests;
  for (const Ids& prompt : prompts) {
    requests.push_back(engine::Request(prompt, tokens));
    requests.back().prompt_logits = true;
    requests.back().params.logprobs = 5;
    requests.push_back(engine::Request(prompt, tokens));
    requests.back().params.temperature = 0.9f;
    requests.back().params.top_p = 0.9f;
    requests.back().params.seed = 7;
  }
  std::string bytes;
  const auto add = [&](const void* data, size_t size) { bytes.append(static_cast<const char*>(data), size); };
  for (const engine::Answer& answer : engine::RunAll(runner, requests)) {
    add(answer.prompt_logits.data(), answer.prompt_logits.size() * sizeof(float));
    add(answer.tokens.data(), answer.tokens.size() * sizeof(int32_t));
    for (const auto& event : answer.events) add(&event.logprob, sizeof(event.logprob));
  }
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

void ExpectStored(const std::string& path, const OpenConfig& base, const std::vector<Ids>& prompts, int64_t tokens,
                  const std::string& name) {
  const std::string stored = StoredDigest(name);
  for (const Isa isa : Isas()) {
    OpenConfig config = base;
    config.isa = isa;
    const auto runner = MustOpen(path, config);
    ASSERT_NE(runner, nullptr);
    EXPECT_EQ(Digest(runner.get(), prompts, tokens), stored) << name << " on " << config.Name();
  }
}

TEST(PortableTest, OracleCheckpointsGiveTheStoredBits) {
  for (const char* family : kFamilies) {
    for (const char* weights : {"f32", "bf16"}) {
      const std::string checkpoint = std::string(family) + "_" + weights;
      std::vector<Ids> prompts;
      for (const OracleCase& oracle : LoadOracle(checkpoint)) prompts.push_back(oracle.ids);
      for (const DType activations : {DType::kBF16, DType::kF32}) {
        ExpectStored(OracleFolder(checkpoint), PortableConfig(activations), prompts, 8,
                     checkpoint + " " + ToString(activations));
      }
    }
  }
}

TEST(PortableTest, SmolLm2GivesTheStoredBits) {
  const Asset asset = FindModel("smollm2");
  DI_NEED_ASSET(asset);
  const auto prompt = EnglishTokens(asset.path, 12);
  ASSERT_TRUE(prompt) << prompt.error().ToString();
  OpenConfig config = PortableConfig(DType::kBF16);
  config.threads = 2;
  ExpectStored(asset.path, config, {*prompt}, 3, "smollm2 bf16");
}

}  // namespace
}  // namespace deepinfer::golden
