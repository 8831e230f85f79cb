#include "models/synthetic.h"

#include <algorithm>

#include "ir/text.h"
#include "models/synthetic_tables.h"
#include "models/test_models.h"

namespace deepinfer::models {
namespace {

constexpr char kTwoScripts[] =
    R"({"vocab_size": 50, "scripts": [[5, 6, 7], [8, 9]], "eos_ids": [2], "nan_at": [[1, 1]]})";

std::string ErrorOfText(std::string_view text) {
  auto model = SyntheticModel::Parse(text, "s.json");
  return model ? "" : model.error().ToString();
}

TEST(SyntheticTest, Tables) {
  auto model = SyntheticModel::Parse(kTwoScripts, "s.json");
  ASSERT_TRUE(model) << model.error().ToString();
  EXPECT_EQ((*model)->info().vocab_size, 50);
  EXPECT_EQ((*model)->info().eos_ids, std::vector<int32_t>{2});
  const std::vector<GeneratedWeight>& weights = (*model)->GeneratedWeights();
  ASSERT_EQ(weights.size(), 4u);
  EXPECT_EQ(weights[0].values, (std::vector<float>{5, 6, 7, 2, 8, 9, 2, 2}));
  EXPECT_EQ(weights[1].values, (std::vector<float>{0, 0, 0, 0, 0, 1, 0, 0}));
  // Of script 1's two tokens, standing at places 1 and 2 of the window.
  const synthetic::Hash& hash = synthetic::kHashes[0];
  const std::vector<int64_t> powers = synthetic::Powers(hash, 3);
  EXPECT_EQ(weights[2].values[3], -1.0f);
  EXPECT_EQ(weights[2].values[4], static_cast<float>((9 * powers[1] + 10 * powers[2]) % hash.modulus));
  EXPECT_EQ(weights[2].values[5], static_cast<float>(9 * powers[2] % hash.modulus));
}

TEST(SyntheticTest, ScriptStartsAgainWithoutAnEnd) {
  auto model = SyntheticModel::Parse(R"({"vocab_size": 9, "scripts": [[3, 4]]})", "s.json");
  ASSERT_TRUE(model);
  EXPECT_EQ((*model)->GeneratedWeights()[0].values, (std::vector<float>{3, 4, 3}));
}

TEST(SyntheticTest, RecordsBothPhases) {
  auto model = SyntheticModel::Parse(kTwoScripts, "s.json");
  ASSERT_TRUE(model);
  for (const Phase phase : {Phase::kPrefill, Phase::kDecode}) {
    auto module = (*model)->Record(SmallShape(phase), PlainWeights(**model));
    ASSERT_TRUE(module) << module.error().ToString();
    const std::string text = ir::Print(*module);
    auto parsed = ir::Parse(text);
    ASSERT_TRUE(parsed) << parsed.error().ToString();
    EXPECT_EQ(ir::Print(*parsed), text);
    std::vector<std::string> states;
    for (const ir::Input& input : module->entry().inputs) {
      if (input.kind == ir::InputKind::kState) states.push_back(input.name);
    }
    EXPECT_EQ(states, (std::vector<std::string>{"kv.0.k", "kv.0.v", kTokenStore}));
  }
  EXPECT_FALSE((*model)->Record(SmallShape(Phase::kDecode), WeightTable()));
}

TEST(SyntheticTest, Refusals) {
  const auto expect = [](std::string_view text, const char* part) {
    EXPECT_NE(ErrorOfText(text).find(part), std::string::npos) << text << " gave: " << ErrorOfText(text);
  };
  expect("[]", "not a JSON object");
  expect("{", "s.json");
  expect(R"({"vocab_size": 9})", "at least one script");
  expect(R"({"vocab_size": 9, "scripts": []})", "at least one script");
  expect(R"({"vocab_size": 9, "scripts": [[]]})", "a script has 0 tokens");
  expect(R"({"vocab_size": 9, "scripts": [[9]]})", "9 is not in the vocabulary of 9");
  expect(R"({"vocab_size": 9, "scripts": [[1.5]]})", "integers only");
  expect(R"({"vocab_size": 9, "scripts": [1]})", "list of lists");
  expect(R"({"vocab_size": 0, "scripts": [[1]]})", "vocab_size");
  expect(R"({"vocab_size": 9, "scripts": [[1]], "eos_ids": [-1]})", "eos_ids");
  expect(R"({"vocab_size": 9, "scripts": [[1]], "nan_at": [[0, 2]]})", "nan_at");
  expect(R"({"vocab_size": 9, "scripts": [[1]], "script": 1})", "unknown field 'script'");
}

}  // namespace
}  // namespace deepinfer::models
