// Whole steps of small models: prefill and decode through PJRT give the reference backend's tokens.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/half.h"
#include "pjrt/pjrt_backend.h"
#include "pjrt/test_models.h"
#include "pjrt/test_plugins.h"
#include "pjrt/test_session.h"
#include "reference/reference.h"

namespace deepinfer::pjrt {
namespace {

using models::Phase;

// Weights of the steps' own names and shapes, small enough that logits stay in range.
class RandomWeights {
 public:
  explicit RandomWeights(const ir::Module& module) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal(0, 0.2f);
    const ir::Function& f = module.entry();
    for (const ir::Input& input : f.inputs) {
      if (input.kind != ir::InputKind::kWeight) continue;
      const ir::Type& type = f.TypeOf(input.value);
      std::vector<float>& values = values_[input.name];
      values.resize(static_cast<size_t>(type.NumElements()));
      const float base = type.rank() == 1 ? 1.0f : 0.0f;
      for (float& value : values) value = BF16ToF32(F32ToBF16(base + normal(random)));  // exact in both
      const auto* data = reinterpret_cast<const std::byte*>(values.data());
      f32_[input.name] = {input.name, Encoding::kF32, type.Shape(), data};
      bf16_[input.name] = f32_[input.name];
      if (type.rank() == 1) continue;  // vectors are f32 whatever the matrices are
      std::vector<uint16_t>& halves = halves_[input.name];
      for (const float value : values) halves.push_back(F32ToBF16(value));
      bf16_[input.name] = {input.name, Encoding::kBF16, type.Shape(),
                           reinterpret_cast<const std::byte*>(halves.data())};
    }
  }
  const backend::WeightMap& map(Encoding matrices) const { return matrices == Encoding::kF32 ? f32_ : bf16_; }

 private:
  std::map<std::string, std::vector<float>> values_;
  std::map<std::string, std::vector<uint16_t>> halves_;
  backend::WeightMap f32_;
  backend::WeightMap bf16_;
};

// Block 0 is the null block; the request has blocks 1 to 3 of 8 tokens each.
int32_t SlotOf(int position) {
  return 8 + position;
}

void SetPrefill(TestSession* session, const std::vector<int32_t>& prompt) {
  const int tokens = static_cast<int>(prompt.size());
  std::vector<int32_t> ids(16, 0), positions(16, 0), slots(16, -1);
  for (int i = 0; i < tokens; ++i) {
    ids[i] = prompt[i];
    positions[i] = i;
    slots[i] = SlotOf(i);
  }
  session->Set<int32_t>("prefill", "live_counts", {tokens, 1, 1});
  session->Set<int32_t>("prefill", "token_ids", ids);
  session->Set<int32_t>("prefill", "positions", positions);
  session->Set<int32_t>("prefill", "slots", slots);
  session->Set<int32_t>("prefill", "block_tables", {1, 2, 3, -1});
  session->Set<int32_t>("prefill", "query_start", {0, tokens});
  session->Set<int32_t>("prefill", "sampling_positions", {tokens - 1, 0, 0, 0});
  session->Set<int32_t>("prefill", "row_to_slot", {2, -1, -1, -1});
  session->Set<int32_t>("prefill", "want_logprobs", {-1, -1, -1, -1});
}

// The token comes from the token store: row 2, where prefill and decode commit it.
void SetDecode(TestSession* session, int position) {
  session->Set<int32_t>("decode", "live_counts", {1, 1, 1});
  session->Set<int32_t>("decode", "token_ids", {-1, 0, 0, 0});
  session->Set<int32_t>("decode", "token_slots", {2, -1, -1, -1});
  session->Set<int32_t>("decode", "positions", {position, 0, 0, 0});
  session->Set<int32_t>("decode", "slots", {SlotOf(position), -1, -1, -1});
  session->Set<int32_t>("decode", "block_tables", {1, 2, 3, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1});
  session->Set<int32_t>("decode", "query_start", {0, 1, 1, 1, 1});
  session->Set<int32_t>("decode", "row_to_slot", {2, -1, -1, -1});
  session->Set<int32_t>("decode", "want_logprobs", {-1, -1, -1, -1});
}

// Row 0 is the only live one. Returns its token.
int32_t ExpectSameRow(TestSession* want, TestSession* got, const std::string& graph, double tolerance) {
  const std::vector<float> a = want->Get<float>(graph, "logits");
  const std::vector<float> b = got->Get<float>(graph, "logits");
  double worst = 0;
  double size = 0;
  for (size_t i = 0; i < a.size() / 4; ++i) {
    worst = std::max(worst, std::fabs(static_cast<double>(a[i]) - b[i]));
    size = std::max(size, std::fabs(static_cast<double>(a[i])));
    EXPECT_TRUE(std::isfinite(b[i]));
  }
  EXPECT_GT(size, 0.01);
  EXPECT_LE(worst, tolerance * size);
  const int32_t token = want->Get<int32_t>(graph, "sampled")[0];
  EXPECT_EQ(got->Get<int32_t>(graph, "sampled")[0], token);
  EXPECT_GE(token, 0);
  return token;
}

class SmallModelsTest : public PluginTest {
 protected:
  // Greedy prefill and six decode steps, on both backends.
  void Generate(const std::string& family, DType dtype, double tolerance, Encoding matrices = Encoding::kF32) {
    SCOPED_TRACE(family);
    const auto prefill = SmallStep(family, Phase::kPrefill, dtype);
    const auto decode = SmallStep(family, Phase::kDecode, dtype);
    const auto prefill_of = SmallStep(family, Phase::kPrefill, dtype, matrices);
    const auto decode_of = SmallStep(family, Phase::kDecode, dtype, matrices);
    ASSERT_TRUE(prefill.has_value() && decode.has_value() && prefill_of.has_value() && decode_of.has_value());
    const RandomWeights weights(*prefill);
    TestSession want(reference::CreateReferenceBackend({}));
    auto backend = CreatePjrtBackend({.plugin = file.path});
    ASSERT_TRUE(backend.has_value()) << backend.error().ToString();
    TestSession got(*std::move(backend));
    for (TestSession* session : {&want, &got}) {
      const bool tested = session == &got;  // the reference reads f32 only
      session->Add("prefill", tested ? *prefill_of : *prefill);
      session->Add("decode", tested ? *decode_of : *decode);
      const Status started = session->Start(weights.map(tested ? matrices : Encoding::kF32));
      ASSERT_TRUE(started.has_value()) << started.error().ToString();
      SetPrefill(session, {5, 17, 200, 3, 90, 41, 7, 300, 12, 64});
      const Status run = session->Run("prefill");
      ASSERT_TRUE(run.has_value()) << run.error().ToString();
    }
    std::vector<int32_t> tokens = {ExpectSameRow(&want, &got, "prefill", tolerance)};
    for (int position = 10; position < 16; ++position) {
      for (TestSession* session : {&want, &got}) {
        SetDecode(session, position);
        const Status run = session->Run("decode");
        ASSERT_TRUE(run.has_value()) << run.error().ToString();
      }
      tokens.push_back(ExpectSameRow(&want, &got, "decode", tolerance));
    }
    EXPECT_EQ(tokens.size(), 7u);
  }
};

TEST_P(SmallModelsTest, GenerateTheReferencesTokens) {
  for (const char* family : {"LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM", "Gemma3ForCausalLM"}) {
    Generate(family, DType::kF32, 1e-4);
  }
}

TEST_P(SmallModelsTest, Bf16ActivationsRoundWhereTheReferenceRounds) {
  Generate("LlamaForCausalLM", DType::kBF16, 2e-2);
}

TEST_P(SmallModelsTest, Bf16WeightsAreReadAsTheyAre) {
  Generate("LlamaForCausalLM", DType::kF32, 2e-2, Encoding::kBF16);
}

INSTANTIATE_TEST_SUITE_P(Plugins, SmallModelsTest, testing::Range(0, kMaxTestPlugins));

}  // namespace
}  // namespace deepinfer::pjrt
