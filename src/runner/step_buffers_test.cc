#include "runner/step_buffers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace deepinfer::runner {
namespace {

namespace in = models::input;
using models::Phase;
using models::StepShape;

template <class T>
std::vector<T> Values(const StepBuffers& buffers, const char* name, int64_t count) {
  for (const backend::HostSlot& slot : buffers.metadata()) {
    if (slot.name != name) continue;
    EXPECT_LE(count * static_cast<int64_t>(sizeof(T)), slot.bytes) << name;
    const T* data = static_cast<const T*>(slot.data);
    return std::vector<T>(data, data + count);
  }
  ADD_FAILURE() << "no buffer " << name;
  return {};
}

std::vector<int32_t> Ints(const StepBuffers& buffers, const char* name, int64_t count) {
  return Values<int32_t>(buffers, name, count);
}

using I = std::vector<int32_t>;
using F = std::vector<float>;

class StepBuffersTest : public ::testing::Test {
 protected:
  static constexpr BufferLimits kLimits{
      .tokens = 8, .rows = 4, .requests = 4, .max_blocks = 3, .vocab = 40, .adjustments = 5};

  // A full step first, so that what padding must overwrite is there.
  StepBuffersTest() : owned_(*StepBuffers::Create(kLimits)), buffers_(*owned_) {
    plan_.Clear();
    for (int32_t i = 0; i < 8; ++i) {
      plan_.tokens.push_back(70 + i);
      plan_.token_slots.push_back(3);
      plan_.positions.push_back(50 + i);
      plan_.slots.push_back(90 + i);
    }
    for (int32_t i = 0; i < 4; ++i) {
      plan_.query_start.push_back(2 * (i + 1));
      plan_.block_tables.push_back(&full_table_);
      plan_.rows.push_back({.token = i,
                            .commit_slot = i,
                            .temperature = 0.5f,
                            .top_k = 3,
                            .top_p = 0.25f,
                            .min_p = 0.125f,
                            .typical_p = 0.5f,
                            .xtc_probability = 0.25f,
                            .xtc_threshold = 0.125f,
                            .uniform = 0.75f,
                            .xtc_uniform = 0.875f,
                            .token_mask = full_mask_,
                            .adjustments = &full_list_,
                            .logprob_id = 9,
                            .want_logprobs = 7});
    }
    buffers_.Fill(plan_, Shape(Phase::kPrefill, 8, 4, 4));
    plan_.Clear();
  }

  static StepShape Shape(Phase phase, int64_t tokens, int64_t rows, int64_t requests) {
    StepShape shape;
    shape.phase = phase;
    shape.tokens = tokens;
    shape.rows = rows;
    shape.requests = requests;
    shape.max_blocks = 3;
    shape.slots = 4;
    return shape;
  }

  const std::vector<int32_t> full_table_ = {9, 8, 7};
  const uint32_t full_mask_[2] = {0xffffffff, 0xff};
  const std::vector<Adjustment> full_list_ = std::vector<Adjustment>(5, {39, 1, 2, 3});
  std::unique_ptr<StepBuffers> owned_;
  StepBuffers& buffers_;
  StepPlan plan_;
};

TEST_F(StepBuffersTest, DecodePadding) {
  const std::vector<int32_t> first = {5};
  const std::vector<int32_t> second = {2, 4};
  const uint32_t mask[2] = {0x80000001, 0x7f};
  const std::vector<Adjustment> list = {{7, 0.5f, 1.25f, -1}, {3, 2, 1, 0}};
  plan_.phase = Phase::kDecode;
  plan_.tokens = {-1, 17};
  plan_.token_slots = {2, 0};
  plan_.positions = {3, 40};
  plan_.slots = {163, 136};
  plan_.query_start = {0, 1, 2};
  plan_.block_tables = {&first, &second};
  plan_.rows.push_back({.token = 0, .commit_slot = 2});
  plan_.rows.push_back({.token = 1,
                        .commit_slot = 0,
                        .temperature = 1.5f,
                        .top_k = 5,
                        .top_p = 0.5f,
                        .min_p = 0.25f,
                        .typical_p = 0.75f,
                        .xtc_probability = 0.5f,
                        .xtc_threshold = 0.25f,
                        .uniform = 0.625f,
                        .xtc_uniform = 0.375f,
                        .token_mask = mask,
                        .adjustments = &list,
                        .logprob_id = 12,
                        .want_logprobs = 3});
  buffers_.Fill(plan_, Shape(Phase::kDecode, 4, 4, 4));

  EXPECT_EQ(Ints(buffers_, in::kLiveCounts, 3), I({2, 2, 2}));
  EXPECT_EQ(Ints(buffers_, in::kTokenIds, 4), I({-1, 17, 0, 0}));
  EXPECT_EQ(Ints(buffers_, in::kTokenSlots, 4), I({2, 0, -1, -1}));
  EXPECT_EQ(Ints(buffers_, in::kPositions, 4), I({3, 40, 0, 0}));
  EXPECT_EQ(Ints(buffers_, in::kSlots, 4), I({163, 136, -1, -1}));
  EXPECT_EQ(Ints(buffers_, in::kBlockTables, 12), I({5, -1, -1, 2, 4, -1, -1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(Ints(buffers_, in::kQueryStart, 5), I({0, 1, 2, 2, 2}));
  EXPECT_EQ(Ints(buffers_, in::kRowToSlot, 4), I({2, 0, -1, -1}));
  EXPECT_EQ(Values<float>(buffers_, in::kTemperature, 4), F({0, 1.5f, 0, 0}));
  EXPECT_EQ(Ints(buffers_, in::kTopK, 4), I({0, 5, 0, 0}));
  EXPECT_EQ(Values<float>(buffers_, in::kTopP, 4), F({1, 0.5f, 1, 1}));
  EXPECT_EQ(Values<float>(buffers_, in::kMinP, 4), F({0, 0.25f, 0, 0}));
  EXPECT_EQ(Values<float>(buffers_, in::kTypicalP, 4), F({1, 0.75f, 1, 1}));
  EXPECT_EQ(Values<float>(buffers_, in::kXtcProbability, 4), F({0, 0.5f, 0, 0}));
  EXPECT_EQ(Values<float>(buffers_, in::kXtcThreshold, 4), F({1, 0.25f, 1, 1}));
  EXPECT_EQ(Values<float>(buffers_, in::kUniforms, 4), F({0, 0.625f, 0, 0}));
  EXPECT_EQ(Values<float>(buffers_, in::kXtcUniforms, 4), F({0, 0.375f, 0, 0}));
  EXPECT_EQ(Ints(buffers_, in::kLogprobIds, 4), I({-1, 12, -1, -1}));
  EXPECT_EQ(Ints(buffers_, in::kWantLogprobs, 4), I({-1, 3, -1, -1}));
  EXPECT_EQ(Ints(buffers_, in::kHasMask, 4), I({0, 1, 0, 0}));
  const I words = Ints(buffers_, in::kTokenMask, 4);
  EXPECT_EQ(I(words.begin() + 2, words.end()), I({static_cast<int32_t>(0x80000001), 0x7f}));
  EXPECT_EQ(Ints(buffers_, in::kNumAdjustments, 4), I({0, 2, 0, 0}));
  const auto second_row = [](const auto& values) {
    return std::decay_t<decltype(values)>(values.begin() + 5, values.end());
  };
  EXPECT_EQ(second_row(Ints(buffers_, in::kAdjustIds, 7)), I({7, 3}));
  EXPECT_EQ(second_row(Values<float>(buffers_, in::kBias, 7)), F({0.5f, 2}));
  EXPECT_EQ(second_row(Values<float>(buffers_, in::kRepetition, 7)), F({1.25f, 1}));
  EXPECT_EQ(second_row(Values<float>(buffers_, in::kPenalty, 7)), F({-1, 0}));
}

TEST_F(StepBuffersTest, PrefillPaddingRepeatsTheLastPosition) {
  const std::vector<int32_t> first = {5};
  const std::vector<int32_t> second = {2, 4, 6};
  plan_.phase = Phase::kPrefill;
  plan_.tokens = {11, 12, 13, 14, 15};
  plan_.positions = {0, 1, 64, 65, 66};
  plan_.slots = {160, 161, 192, 193, 194};
  plan_.query_start = {0, 2, 5};
  plan_.block_tables = {&first, &second};
  plan_.rows.push_back({.token = 1, .commit_slot = 1});
  buffers_.Fill(plan_, Shape(Phase::kPrefill, 8, 4, 4));

  EXPECT_EQ(Ints(buffers_, in::kLiveCounts, 3), I({5, 1, 2}));
  EXPECT_EQ(Ints(buffers_, in::kTokenIds, 8), I({11, 12, 13, 14, 15, 0, 0, 0}));
  EXPECT_EQ(Ints(buffers_, in::kPositions, 8), I({0, 1, 64, 65, 66, 66, 66, 66}));
  EXPECT_EQ(Ints(buffers_, in::kSlots, 8), I({160, 161, 192, 193, 194, -1, -1, -1}));
  EXPECT_EQ(Ints(buffers_, in::kQueryStart, 5), I({0, 2, 5, 5, 5}));
  EXPECT_EQ(Ints(buffers_, in::kBlockTables, 12), I({5, -1, -1, 2, 4, 6, -1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(Ints(buffers_, in::kSamplingPositions, 4), I({1, 0, 0, 0}));
  EXPECT_EQ(Ints(buffers_, in::kRowToSlot, 4), I({1, -1, -1, -1}));
}

TEST_F(StepBuffersTest, PaddingAloneHasNoLiveRow) {
  buffers_.FillPadding(Shape(Phase::kPrefill, 8, 4, 4));
  EXPECT_EQ(Ints(buffers_, in::kLiveCounts, 3), I({0, 0, 0}));
  EXPECT_EQ(Ints(buffers_, in::kTokenIds, 8), I(8, 0));
  EXPECT_EQ(Ints(buffers_, in::kPositions, 8), I(8, 0));
  EXPECT_EQ(Ints(buffers_, in::kSlots, 8), I(8, -1));
  EXPECT_EQ(Ints(buffers_, in::kBlockTables, 12), I(12, -1));
  EXPECT_EQ(Ints(buffers_, in::kQueryStart, 5), I(5, 0));
  EXPECT_EQ(Ints(buffers_, in::kRowToSlot, 4), I(4, -1));
}

TEST_F(StepBuffersTest, AddressesStayAndOutputsAreThere) {
  std::map<std::string, const void*> before;
  for (const auto* slots : {&buffers_.metadata(), &buffers_.outputs()}) {
    for (const backend::HostSlot& slot : *slots) before[slot.name] = slot.data;
  }
  EXPECT_EQ(before.size(), 32u);
  EXPECT_EQ(before[models::output::kLogits], buffers_.logits());
  EXPECT_EQ(before[models::output::kSampled], buffers_.sampled());
  EXPECT_EQ(buffers_.top_stride(), models::kMaxTopLogprobs);
  buffers_.FillPadding(Shape(Phase::kDecode, 1, 1, 1));
  for (const auto* slots : {&buffers_.metadata(), &buffers_.outputs()}) {
    for (const backend::HostSlot& slot : *slots) EXPECT_EQ(before[slot.name], slot.data) << slot.name;
  }
}

TEST(StepBuffersSmallVocabTest, TopLogprobsAreNoMoreThanTheVocabulary) {
  const auto buffers = StepBuffers::Create({.tokens = 1, .rows = 1, .requests = 1, .max_blocks = 1, .vocab = 7});
  ASSERT_TRUE(buffers);
  EXPECT_EQ((*buffers)->top_stride(), 7);
}

TEST(StepBuffersMemoryTest, TooLargeIsAnErrorThatNamesTheBuffer) {
  const auto buffers = StepBuffers::Create(
      {.tokens = 1, .rows = int64_t{1} << 30, .requests = 1, .max_blocks = 1, .vocab = int64_t{1} << 30});
  ASSERT_FALSE(buffers);
  EXPECT_EQ(buffers.error().code, ErrorCode::kResourceExhausted);
}

TEST_F(StepBuffersTest, LateRowsTouchTheirInputsOnly) {
  const std::vector<std::string> late = StepBuffers::LateInputs();
  const auto is_late = [&late](const std::string& name) {
    return std::find(late.begin(), late.end(), name) != late.end();
  };
  const auto others = [&] {
    std::map<std::string, std::vector<std::byte>> bytes;
    for (const backend::HostSlot& slot : buffers_.metadata()) {
      const auto* data = static_cast<const std::byte*>(slot.data);
      if (!is_late(slot.name)) bytes[slot.name].assign(data, data + slot.bytes);
    }
    EXPECT_EQ(bytes.size() + late.size(), buffers_.metadata().size()) << "each has its buffer";
    return bytes;
  };
  plan_.phase = Phase::kDecode;
  plan_.query_start = {0};
  for (int32_t i = 0; i < 3; ++i) plan_.rows.push_back({.token = i});
  plan_.rows[1].token_mask = full_mask_;
  buffers_.Fill(plan_, Shape(Phase::kDecode, 4, 4, 4));
  const auto before = others();
  const uint32_t mask[2] = {0x80000001, 0x7f};
  const std::vector<Adjustment> list = {{7, 0.5f, 1.25f, -1}};
  buffers_.FillLate({{0, mask, nullptr}, {2, nullptr, &list}});
  EXPECT_EQ(others(), before);
  EXPECT_EQ(Ints(buffers_, in::kHasMask, 4), I({1, 1, 0, 0}));
  const I words = Ints(buffers_, in::kTokenMask, 4);
  EXPECT_EQ(words, I({static_cast<int32_t>(0x80000001), 0x7f, -1, 0xff}));
  EXPECT_EQ(Ints(buffers_, in::kNumAdjustments, 4), I({0, 0, 1, 0}));
  EXPECT_EQ(Ints(buffers_, in::kAdjustIds, 20)[10], 7);
  EXPECT_EQ(Values<float>(buffers_, in::kBias, 20)[10], 0.5f);
  EXPECT_EQ(Values<float>(buffers_, in::kRepetition, 20)[10], 1.25f);
  EXPECT_EQ(Values<float>(buffers_, in::kPenalty, 20)[10], -1);
}

}  // namespace
}  // namespace deepinfer::runner
