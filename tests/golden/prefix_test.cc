// What a prefix cache finds, choices of one prompt and steps launched ahead give the bits of a cold run of one request,
// on the tiny checkpoint of each family.
#include <gtest/gtest.h>

#include "prefix_checks.h"

namespace deepinfer::golden {
namespace {

struct Param {
  std::string checkpoint;
  DType dtype;
};

std::ostream& operator<<(std::ostream& out, const Param& param) {
  return out << param.checkpoint << "_" << ToString(param.dtype);
}

class PrefixTest : public ::testing::TestWithParam<Param> {
 protected:
  OpenConfig Base() const {
    OpenConfig config;
    config.options.activations = GetParam().dtype;
    config.options.max_model_len = 256;
    config.options.max_num_seqs = 4;
    config.options.max_num_batched_tokens = 48;
    config.options.block_size = 16;
    return config;
  }
  std::vector<Ids> Prompts() const {
    std::vector<Ids> prompts;
    for (const OracleCase& each : LoadOracle(GetParam().checkpoint)) prompts.push_back(each.ids);
    prompts.push_back(prompts.back());
    prompts.back().resize(prompts.back().size() / 16 * 16);  // full blocks only
    return prompts;
  }
  std::string Folder() const { return OracleFolder(GetParam().checkpoint); }
};

TEST_P(PrefixTest, EveryIsa) {
  for (const Isa isa : TestedIsas()) {
    OpenConfig config = Base();
    config.isa = isa;
    SCOPED_TRACE(config.Name());
    const auto runner = MustOpen(Folder(), config);
    ASSERT_NE(runner, nullptr);
    ExpectPrefixesChangeNoBit(runner.get(), Prompts(), 20);
    ExpectChoicesAreAlone(runner.get(), Prompts(), 12);
  }
}

std::vector<Param> Params() {
  std::vector<Param> params;
  for (const char* family : kFamilies) {
    params.push_back({std::string(family) + "_f32", DType::kF32});
    params.push_back({std::string(family) + "_bf16", DType::kBF16});
  }
  return params;
}

INSTANTIATE_TEST_SUITE_P(All, PrefixTest, ::testing::ValuesIn(Params()),
                         [](const auto& info) { return ::testing::PrintToString(info.param); });

TEST(PrefixReferenceTest, EveryFamily) {
  for (const char* family : kFamilies) {
    const std::string checkpoint = std::string(family) + "_f32";
    OpenConfig config;
    config.backend = "reference";
    config.options.activations = DType::kF32;
    config.options.max_model_len = 128;
    config.options.max_num_seqs = 2;
    config.options.max_num_batched_tokens = 48;
    config.options.block_size = 16;
    const auto runner = MustOpen(OracleFolder(checkpoint), config);
    ASSERT_NE(runner, nullptr);
    ExpectPrefixesChangeNoBit(runner.get(), {LoadOracle(checkpoint)[1].ids}, 6);
  }
}

}  // namespace
}  // namespace deepinfer::golden
