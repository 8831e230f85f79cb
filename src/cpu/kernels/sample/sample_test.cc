#include "cpu/kernels/sample/sample.h"

#include <algorithm>
#include <numeric>

#include "cpu/kernels/test_util.h"

namespace deepinfer {
namespace {

constexpr float kInf = INFINITY;

struct Params {
  float temperature = 1;
  int32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
};

// Ids by (logit descending, id ascending).
std::vector<int32_t> Sorted(const std::vector<float>& logits, std::vector<int32_t> ids) {
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  return ids;
}

// The definition, in double, with full sorts.
std::vector<int32_t> Kept(const std::vector<float>& logits, const Params& params) {
  const float max = *std::max_element(logits.begin(), logits.end());
  std::vector<int32_t> ids;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] == -kInf) continue;
    if (params.min_p > 0 && logits[i] < max + std::log(params.min_p)) continue;
    ids.push_back(static_cast<int32_t>(i));
  }
  ids = Sorted(logits, ids);
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < ids.size()) ids.resize(params.top_k);
  if (params.top_p < 1) {
    double total = 0, before = 0;
    for (int32_t id : ids) total += std::exp(double{logits[id]} - max);
    size_t count = 0;
    while (count < ids.size() && (count == 0 || before / total < params.top_p)) {
      before += std::exp(double{logits[ids[count++]]} - max);
    }
    ids.resize(count);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

// The token for `uniform`, and whether the draw is so near a boundary that rounding may move it.
int32_t Draw(const std::vector<float>& logits, const Params& params, float uniform, bool* near) {
  const std::vector<int32_t> kept = Kept(logits, params);
  const double max = *std::max_element(logits.begin(), logits.end());
  std::vector<double> sums;
  double sum = 0;
  for (int32_t id : kept) sums.push_back(sum += std::exp((logits[id] - max) / params.temperature));
  const double target = uniform * sum;
  *near = false;
  for (double s : sums) *near = *near || std::fabs(s - target) < 1e-5 * sum;
  const size_t place = std::lower_bound(sums.begin(), sums.end(), target) - sums.begin();
  return kept[std::min(place, kept.size() - 1)];
}

int32_t SampleOne(Isa isa, const std::vector<float>& logits, const Params& params, float uniform) {
  const int64_t vocabulary = static_cast<int64_t>(logits.size());
  std::vector<double> scratch(SampleScratchBytes(vocabulary) / sizeof(double));
  int32_t id = -99;
  SampleArgs args = {logits.data(), vocabulary, vocabulary, &params.temperature, &params.top_k, &params.top_p,
                     &params.min_p, &uniform,   &id};
  ChooseSample(isa)->sample(args, 0, 1, scratch.data());
  return id;
}

TEST(Sample, GreedyTakesTheLowestOfTheLargest) {
  ForEachIsa([](Isa isa) {
    for (int64_t vocabulary : {1, 5, 127, 128, 129, 1000}) {
      std::vector<float> logits = RandomFloats(vocabulary, 1);
      const int64_t first = vocabulary / 3;
      logits[first] = 50;
      logits[vocabulary - 1] = 50;
      EXPECT_EQ(SampleOne(isa, logits, {.temperature = 0}, 0.7f), first);
      EXPECT_EQ(SampleOne(isa, logits, {.temperature = -1}, 0.7f), first);
    }
  });
}

TEST(Sample, MatchesTheDefinition) {
  ForEachIsa([](Isa isa) {
    std::mt19937 random(5);
    std::uniform_real_distribution<float> uniform(0, 1);
    int compared = 0;
    const Params cases[] = {{1},
                            {0.7f, 5},
                            {1, 0, 0.9f},
                            {1.3f, 0, 1, 0.05f},
                            {1, 40, 0.8f},
                            {2, 100, 0.95f, 0.01f},
                            {5, 0, 0.999f},
                            {0.3f, 700, 0.5f},
                            {1, 0, 0.0f},
                            {1, 1, 1},
                            {1, 0, 1, 1.0f},
                            {100, 0, 0.97f}};
    for (const Params& params : cases) {
      for (int64_t vocabulary : {1, 2, 130, 1500, 20000}) {
        std::vector<float> logits = RandomFloats(vocabulary, static_cast<uint32_t>(vocabulary), 3);
        for (float& logit : logits) logit = std::round(logit * 8) / 8;  // many ties
        if (vocabulary > 2) logits[1] = -kInf;
        for (int draw = 0; draw < 12; ++draw) {
          const float u = draw == 0 ? 0.999999f : uniform(random);
          bool near;
          const int32_t expected = Draw(logits, params, u, &near);
          if (near) continue;
          ++compared;
          EXPECT_EQ(SampleOne(isa, logits, params, u), expected)
              << "V " << vocabulary << " u " << u << " T " << params.temperature << " k " << params.top_k << " p "
              << params.top_p << " min_p " << params.min_p;
        }
      }
    }
    EXPECT_GT(compared, 350);
  });
}

TEST(Sample, ExtremeTemperaturesAndLogits) {
  ForEachIsa([](Isa isa) {
    std::vector<float> logits = RandomFloats(300, 9);
    logits[200] = 20;
    for (float u : {0.0f, 0.5f, 0.99999994f, 1.0f}) {
      EXPECT_EQ(SampleOne(isa, logits, {.temperature = 1e-9f}, u), 200);
      EXPECT_EQ(SampleOne(isa, logits, {1e-9f, 10, 0.9f, 0.1f}, u), 200);
      EXPECT_EQ(SampleOne(isa, {-3e38f, 3e38f, 0}, {1}, u), 1);
      EXPECT_EQ(SampleOne(isa, {-kInf, 1, kInf, 0}, {1, 2, 0.5f, 0.5f}, u), 2);
    }
    // Near uniform: id = floor(u * V).
    for (float u : {0.051f, 0.505f, 0.951f}) {
      EXPECT_EQ(SampleOne(isa, logits, {.temperature = 1e30f}, u), static_cast<int32_t>(u * 300));
    }
  });
}

TEST(Sample, NanOrNothingToKeepIsMinusOne) {
  ForEachIsa([](Isa isa) {
    for (int place : {0, 63, 130}) {
      std::vector<float> logits = RandomFloats(131, 3);
      logits[place] = NAN;
      EXPECT_EQ(SampleOne(isa, logits, {.temperature = 0}, 0.5f), -1);
      EXPECT_EQ(SampleOne(isa, logits, {1, 5, 0.5f, 0.1f}, 0.5f), -1);
    }
    EXPECT_EQ(SampleOne(isa, std::vector<float>(131, -kInf), {1}, 0.5f), -1);
  });
}

TEST(Sample, RowsDoNotTouchEachOther) {
  ForEachIsa([](Isa isa) {
    const int64_t rows = 6, vocabulary = 1001;
    std::vector<float> logits = RandomFloats(rows * vocabulary, 4, 2);
    logits[2 * vocabulary + 7] = NAN;
    const std::vector<float> temperature = {1, 0, 1, 0.5f, 2, 1}, top_p = {1, 1, 0.5f, 0.9f, 1, 0.7f},
                             min_p = {0, 0, 0, 0.1f, 0, 0}, uniforms = {0.1f, 0.9f, 0.4f, 0.6f, 0.3f, 0.8f};
    const std::vector<int32_t> top_k = {0, 0, 3, 20, 7, 0};
    std::vector<int32_t> together(rows), apart(rows);
    std::vector<double> scratch(SampleScratchBytes(vocabulary) / sizeof(double));
    SampleArgs args = {logits.data(), vocabulary,   vocabulary,      temperature.data(), top_k.data(),
                       top_p.data(),  min_p.data(), uniforms.data(), together.data()};
    ChooseSample(isa)->sample(args, 0, rows, scratch.data());
    args.ids = apart.data();
    for (int64_t row = rows - 1; row >= 0; --row) ChooseSample(isa)->sample(args, row, row + 1, scratch.data());
    EXPECT_EQ(together, apart);
    EXPECT_EQ(together[2], -1);
  });
}

TEST(TopLogprobs, MatchesASortAndLeavesUnwantedRowsAlone) {
  ForEachIsa([](Isa isa) {
    const int64_t rows = 5, vocabulary = 999, kmax = 20;
    std::vector<float> logits = RandomFloats(rows * vocabulary, 8, 3);
    for (float& logit : logits) logit = std::round(logit * 4) / 4;
    for (int64_t i = 3; i < vocabulary; ++i) logits[3 * vocabulary + i] = -kInf;  // row 3 has three tokens
    logits[4 * vocabulary] = NAN;
    const std::vector<int32_t> ids = {17, 5, 998, 1, 0}, want = {20, -1, 0, 5, 2};
    std::vector<float> logprob(rows, 42), top(rows * kmax, 42);
    std::vector<int32_t> top_ids(rows * kmax, 42);
    std::vector<double> scratch(SampleScratchBytes(vocabulary) / sizeof(double));
    const TopLogprobsArgs args = {logits.data(), vocabulary,     vocabulary,     ids.data(), want.data(),
                                  kmax,          logprob.data(), top_ids.data(), top.data()};
    ChooseSample(isa)->top_logprobs(args, 0, rows, scratch.data());
    EXPECT_EQ(logprob[1], 42);
    EXPECT_EQ(top_ids[kmax], 42);
    EXPECT_TRUE(std::isnan(logprob[4]));
    EXPECT_EQ(top_ids[4 * kmax], -1);
    for (int64_t row : {0, 2, 3}) {
      const std::vector<float> one(&logits[row * vocabulary], &logits[row * vocabulary] + vocabulary);
      double sum = 0;
      for (float logit : one) sum += std::exp(double{logit});
      EXPECT_NEAR(logprob[row], one[ids[row]] - std::log(sum), 2e-6 * (1 + std::fabs(one[ids[row]])));
      std::vector<int32_t> all(vocabulary);
      std::iota(all.begin(), all.end(), 0);
      all = Sorted(one, all);
      for (int64_t i = 0; i < kmax; ++i) {
        const bool used = i < want[row] && one[all[i]] > -kInf;
        EXPECT_EQ(top_ids[row * kmax + i], used ? all[i] : -1);
        if (used) {
          EXPECT_NEAR(top[row * kmax + i], one[all[i]] - std::log(sum), 1e-5);
        } else {
          EXPECT_EQ(top[row * kmax + i], -kInf);
        }
      }
    }
  });
}

}  // namespace
}  // namespace deepinfer
