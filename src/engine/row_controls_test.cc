#include "engine/row_controls.h"

#include <gtest/gtest.h>

#include <map>

namespace deepinfer::engine {
namespace {

using Ids = std::vector<int32_t>;

constexpr int64_t kVocab = 70;

std::map<int32_t, float> FindDry(const SamplingParams& params, const Ids& tokens) {
  Dry dry(params, static_cast<int64_t>(tokens.size()));
  std::map<int32_t, float> found;
  for (const Dry::Penalty& each : dry.Find(tokens)) found[each.id] = std::max(found[each.id], each.value);
  return found;
}

SamplingParams DryParams(int32_t allowed = 2) {
  SamplingParams params;
  params.dry_multiplier = 0.5;
  params.dry_base = 2;
  params.dry_allowed_length = allowed;
  return params;
}

using Found = std::map<int32_t, float>;

TEST(DryTest, PenalisesWhatWouldContinueARepetition) {
  EXPECT_EQ(FindDry(DryParams(), {1, 2, 3, 9, 1, 2}), (Found{{3, 0.5f}}));
  EXPECT_EQ(FindDry(DryParams(), {7, 1, 2, 3, 9, 7, 1, 2}), (Found{{3, 1.0f}})) << "one more token agrees";
  EXPECT_EQ(FindDry(DryParams(), {1, 2, 3, 9, 8, 2}), Found()) << "shorter than allowed";
  EXPECT_EQ(FindDry(DryParams(1), {1, 2, 3, 9, 8, 2}), (Found{{3, 0.5f}}));
  EXPECT_EQ(FindDry(DryParams(), {1, 2, 3, 1, 2, 4, 1, 2}), (Found{{3, 0.5f}, {4, 0.5f}}));
  EXPECT_EQ(FindDry(DryParams(), {5, 1, 2, 3, 1, 2, 3, 5, 1, 2}), (Found{{3, 1.0f}})) << "the longest counts";
  EXPECT_EQ(FindDry(DryParams(), {4, 4, 4, 4}), (Found{{4, 1.0f}})) << "an occurrence may overlap the end";
  EXPECT_EQ(FindDry(DryParams(), {}), Found());
  EXPECT_EQ(FindDry(DryParams(), {3}), Found());
}

TEST(DryTest, BreakersAndRange) {
  SamplingParams params = DryParams(1);
  params.dry_breaker_ids = {50};
  EXPECT_EQ(FindDry(params, {7, 50, 2, 3, 9, 7, 50, 2}), (Found{{3, 0.5f}})) << "not across the breaker";
  EXPECT_EQ(FindDry(params, {2, 50, 9, 2}), Found()) << "a breaker is not penalised";
  EXPECT_EQ(FindDry(params, {50, 3, 50}), Found());
  params = DryParams();
  params.dry_range = 4;
  EXPECT_EQ(FindDry(params, {1, 2, 3, 9, 1, 2}), Found());
  params.dry_range = 6;
  EXPECT_EQ(FindDry(params, {1, 2, 3, 9, 1, 2}), (Found{{3, 0.5f}}));
}

// The same by comparing every pair of positions.
TEST(DryTest, AgreesWithTheSlowDefinition) {
  uint32_t state = 1;
  for (int trial = 0; trial < 200; ++trial) {
    Ids tokens;
    for (int i = 0; i < 40; ++i) {
      state = state * 1664525 + 1013904223;
      tokens.push_back(static_cast<int32_t>(state >> 24) % (2 + trial % 4));
    }
    Found slow;
    const auto size = static_cast<int64_t>(tokens.size());
    for (int64_t i = 0; i + 1 < size; ++i) {
      int64_t length = 0;
      while (length <= i && tokens[i - length] == tokens[size - 1 - length]) ++length;
      if (length < 2) continue;
      float& value = slow[tokens[i + 1]];
      value = std::max(value, 0.5f * std::pow(2.0f, static_cast<float>(length - 2)));
    }
    EXPECT_EQ(FindDry(DryParams(), tokens), slow) << trial;
  }
}

TEST(DryTest, LongRepetitionsStayFinite) {
  const Found found = FindDry(DryParams(), Ids(3000, 5));
  EXPECT_TRUE(std::isfinite(found.at(5)));
  EXPECT_GT(found.at(5), 1e29f);
}

std::unique_ptr<RowControls> Make(const GenerationRequest& request) {
  auto controls = RowControls::Create(request, kVocab, 60);
  EXPECT_TRUE(controls) << (controls ? "" : controls.error().ToString());
  return controls ? std::move(*controls) : nullptr;
}

runner::PlannedRow RowOf(const RowControls& controls) {
  runner::PlannedRow row;
  controls.FillRow(0, 5, &row);
  return row;
}

Ids Allowed(const runner::PlannedRow& row) {
  Ids ids;
  for (int32_t id = 0; id < models::MaskWords(kVocab) * 32; ++id) {
    if ((row.token_mask[id / 32] >> (id % 32) & 1) != 0) ids.push_back(id);
  }
  return ids;
}

TEST(RowControlsTest, NothingAskedForNothingPlanned) {
  GenerationRequest request;
  request.prompt = {1, 2, 3};
  const auto controls = Make(request);
  const runner::PlannedRow row = RowOf(*controls);
  EXPECT_EQ(row.token_mask, nullptr);
  EXPECT_EQ(row.adjustments, nullptr);
  EXPECT_FALSE(request.depends_on_its_tokens());
}

TEST(RowControlsTest, MasksOfIdsAndMinTokens) {
  GenerationRequest request;
  request.prompt = {1};
  request.stop_ids = {5, 69, 4000, -1};
  request.params.allowed_ids = {5, 7, 33, 69};
  request.params.banned_ids = {7};
  EXPECT_FALSE(request.depends_on_its_tokens());
  EXPECT_EQ(Allowed(RowOf(*Make(request))), (Ids{5, 33, 69}));
  request.params.min_tokens = 2;
  EXPECT_TRUE(request.depends_on_its_tokens());
  const auto controls = Make(request);
  EXPECT_EQ(Allowed(RowOf(*controls)), (Ids{33}));
  ASSERT_TRUE(controls->Accept(Ids{1, 33}));
  EXPECT_EQ(Allowed(RowOf(*controls)), (Ids{33}));
  ASSERT_TRUE(controls->Accept(Ids{1, 33, 33}));
  EXPECT_EQ(Allowed(RowOf(*controls)), (Ids{5, 33, 69}));

  request.params.allowed_ids.clear();
  request.params.banned_ids.clear();
  const auto free = Make(request);
  EXPECT_EQ(Allowed(RowOf(*free)).size(), 68u);
  EXPECT_EQ(Allowed(RowOf(*free)).back(), 68) << "no bit past the vocabulary";
  ASSERT_TRUE(free->Accept(Ids{1, 33}));
  ASSERT_TRUE(free->Accept(Ids{1, 33, 33}));
  EXPECT_EQ(RowOf(*free).token_mask, nullptr);
}

TEST(RowControlsTest, BadWordsBanWhatWouldCompleteThem) {
  GenerationRequest request;
  request.prompt = {1, 8};
  request.params.allowed_ids = {5, 6, 7, 8, 33};
  request.params.bad_words = {{33}};
  EXPECT_FALSE(request.depends_on_its_tokens()) << "one token needs no output";
  request.params.bad_words = {{33}, {8, 5}, {5, 6, 7}, {5, 6}, {6, 6, 6}};
  EXPECT_TRUE(request.depends_on_its_tokens());
  const auto controls = Make(request);
  const auto after = [&](Ids tokens) {
    EXPECT_TRUE(controls->Accept(tokens));
    return Allowed(RowOf(*controls));
  };
  EXPECT_EQ(Allowed(RowOf(*controls)), (Ids{5, 6, 7, 8})) << "the prompt is no part of a word";
  EXPECT_EQ(after({1, 8, 6}), (Ids{5, 6, 7, 8}));
  EXPECT_EQ(after({1, 8, 6, 6}), (Ids{5, 7, 8}));
  EXPECT_EQ(after({1, 8, 6, 6, 5}), (Ids{5, 7, 8}));
  EXPECT_EQ(after({1, 8, 6, 6, 5, 8}), (Ids{6, 7, 8}));
  EXPECT_EQ(after({1, 8, 6, 6, 5, 8, 7}), (Ids{5, 6, 7, 8}));

  request.params.allowed_ids.clear();
  request.params.bad_words = {{5, 6}};
  const auto free = Make(request);
  EXPECT_EQ(RowOf(*free).token_mask, nullptr);
  ASSERT_TRUE(free->Accept(Ids{1, 8, 5}));
  EXPECT_EQ(Allowed(RowOf(*free)).size(), static_cast<size_t>(kVocab - 1));
  ASSERT_TRUE(free->Accept(Ids{1, 8, 5, 7}));
  EXPECT_EQ(RowOf(*free).token_mask, nullptr) << "nothing is banned any longer";

  request.params.allowed_ids = {5};
  request.params.bad_words = {{5, 5}};
  const Status stuck = Make(request)->Accept(Ids{1, 8, 5});
  ASSERT_FALSE(stuck);
  EXPECT_EQ(stuck.error().where, "bad_words");
}

TEST(RowControlsTest, AMaskWithoutTokensIsAnError) {
  GenerationRequest request;
  request.prompt = {1};
  request.stop_ids = {5};
  request.params.allowed_ids = {5};
  request.params.min_tokens = 1;
  const auto controls = RowControls::Create(request, kVocab, 60);
  ASSERT_FALSE(controls);
  EXPECT_EQ(controls.error().where, "min_tokens");
}

std::map<int32_t, runner::Adjustment> ById(const runner::PlannedRow& row) {
  std::map<int32_t, runner::Adjustment> out;
  if (row.adjustments == nullptr) return out;
  for (const runner::Adjustment& each : *row.adjustments) {
    EXPECT_EQ(out.count(each.id), 0u) << "ids are distinct";
    out[each.id] = each;
  }
  return out;
}

TEST(RowControlsTest, PenaltiesFollowTheTokens) {
  GenerationRequest request;
  request.prompt = {3, 4, 3};
  request.params.logit_bias = {{4, 2.5}, {60, -1}};
  request.params.repetition_penalty = 1.5;
  request.params.presence_penalty = 0.5;
  request.params.frequency_penalty = 0.25;
  EXPECT_TRUE(request.depends_on_its_tokens());
  const auto controls = Make(request);
  auto list = ById(RowOf(*controls));
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[3].repetition, 1.5f);
  EXPECT_EQ(list[3].penalty, 0) << "the prompt counts for repetition alone";
  EXPECT_EQ(list[4].bias, 2.5f);
  EXPECT_EQ(list[60].repetition, 1);
  const runner::Adjustment* at = RowOf(*controls).adjustments->data();
  ASSERT_TRUE(controls->Accept(Ids{3, 4, 3, 60}));
  ASSERT_TRUE(controls->Accept(Ids{3, 4, 3, 60, 8}));
  ASSERT_TRUE(controls->Accept(Ids{3, 4, 3, 60, 8, 60}));
  list = ById(RowOf(*controls));
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[60].repetition, 1.5f);
  EXPECT_EQ(list[60].penalty, 1.0f);
  EXPECT_EQ(list[60].bias, -1.0f);
  EXPECT_EQ(list[8].penalty, 0.75f);
  EXPECT_EQ(list[3].penalty, 0);
  EXPECT_EQ(RowOf(*controls).adjustments->data(), at) << "it does not move";
}

TEST(RowControlsTest, DryPenaltiesComeAndGo) {
  GenerationRequest request;
  request.prompt = {1, 2, 3, 9, 1, 2};
  request.params = DryParams();
  request.params.frequency_penalty = 0.25;
  const auto controls = Make(request);
  EXPECT_EQ(ById(RowOf(*controls))[3].penalty, 0.5f);
  ASSERT_TRUE(controls->Accept(Ids{1, 2, 3, 9, 1, 2, 3}));
  auto list = ById(RowOf(*controls));
  EXPECT_EQ(list[3].penalty, 0.25f);
  EXPECT_EQ(list[9].penalty, 1.0f);
}

TEST(RowControlsTest, ChoicesDrawApart) {
  GenerationRequest request;
  request.prompt = {1};
  request.params.xtc_probability = 0.5;
  const auto controls = Make(request);
  runner::PlannedRow first, second;
  controls->FillRow(0, 5, &first);
  controls->FillRow(1, 5, &second);
  EXPECT_NE(first.uniform, second.uniform);
  EXPECT_NE(first.xtc_uniform, second.xtc_uniform);
  EXPECT_NE(first.uniform, first.xtc_uniform);
}

}  // namespace
}  // namespace deepinfer::engine
