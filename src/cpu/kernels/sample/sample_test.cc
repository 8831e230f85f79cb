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
  float typical_p = 1;
  float xtc_probability = 0;
  float xtc_threshold = 0.1f;
};

// Ids by (logit descending, id ascending).
std::vector<int32_t> Sorted(const std::vector<float>& logits, std::vector<int32_t> ids) {
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  return ids;
}

// exp(l - max) of ids.
std::vector<double> Masses(const std::vector<float>& logits, const std::vector<int32_t>& ids) {
  const float max = *std::max_element(logits.begin(), logits.end());
  std::vector<double> masses;
  for (int32_t id : ids) masses.push_back(std::exp(double{logits[id]} - max));
  return masses;
}

// Is `value` of `scale` so near to `limit` that rounding may decide? f32 sums of a few terms in any order.
bool Close(double value, double limit, double scale) {
  return std::fabs(value - limit) < 1e-5 * scale;
}

void KeepTypical(const std::vector<float>& logits, float part, std::vector<int32_t>* ids, bool* near) {
  const std::vector<double> masses = Masses(logits, *ids);
  const double total = std::accumulate(masses.begin(), masses.end(), 0.0);
  double entropy = 0;
  for (double mass : masses) entropy -= mass > 0 ? mass / total * std::log(mass / total) : 0;
  std::vector<std::pair<double, double>> by_distance;
  for (size_t i = 0; i < ids->size(); ++i) {
    by_distance.emplace_back(std::fabs(-std::log(masses[i] / total) - entropy), masses[i]);
  }
  std::vector<std::pair<double, double>> sorted = by_distance;
  std::sort(sorted.begin(), sorted.end());
  double before = 0, farthest = 0;
  for (const auto& [distance, mass] : sorted) {
    // Equal up to rounding is equal: those stay together.
    if (before / total >= part && distance > farthest + 1e-9) {
      *near = *near || distance < farthest + 1e-4;
      break;
    }
    before += mass;
    farthest = std::max(farthest, distance);
    *near = *near || Close(before, part * total, total);
  }
  std::vector<int32_t> kept;
  for (size_t i = 0; i < ids->size(); ++i) {
    if (by_distance[i].first <= farthest) kept.push_back((*ids)[i]);
  }
  *ids = kept;
}

void KeepXtc(const std::vector<float>& logits, float threshold, std::vector<int32_t>* ids, bool* near) {
  const std::vector<double> masses = Masses(logits, *ids);
  const double total = std::accumulate(masses.begin(), masses.end(), 0.0);
  size_t likely = 0;
  while (likely < ids->size() && masses[likely] >= threshold * total) ++likely;
  for (double mass : masses) *near = *near || Close(mass, threshold * total, threshold * total);
  if (likely > 1) ids->erase(ids->begin(), ids->begin() + static_cast<int64_t>(likely) - 1);
}

// The definition (ir/sampling.h), in double, with full sorts. near: a decision on the way is at the mercy of rounding.
std::vector<int32_t> Kept(const std::vector<float>& logits, const Params& params, bool* near) {
  const float max = *std::max_element(logits.begin(), logits.end());
  std::vector<int32_t> ids;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] == -kInf) continue;
    if (params.min_p > 0 && logits[i] < max + std::log(params.min_p)) continue;
    ids.push_back(static_cast<int32_t>(i));
  }
  ids = Sorted(logits, ids);
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < ids.size()) ids.resize(params.top_k);
  if (params.typical_p < 1) KeepTypical(logits, params.typical_p, &ids, near);
  if (params.top_p < 1) {
    double total = 0, before = 0;
    for (int32_t id : ids) total += std::exp(double{logits[id]} - max);
    size_t count = 0;
    while (count < ids.size() && (count == 0 || before / total < params.top_p)) {
      before += std::exp(double{logits[ids[count++]]} - max);
      *near = *near || (params.typical_p < 1 && Close(before, params.top_p * total, total));
    }
    ids.resize(count);
  }
  if (params.xtc_probability > 0) KeepXtc(logits, params.xtc_threshold, &ids, near);
  std::sort(ids.begin(), ids.end());
  return ids;
}

// The token for `uniform`, and whether the draw is so near a boundary that rounding may move it.
int32_t Draw(const std::vector<float>& logits, const Params& params, float uniform, bool* near) {
  *near = false;
  const std::vector<int32_t> kept = Kept(logits, params, near);
  double best = -kInf;
  for (int32_t id : kept) best = std::max(best, double{logits[id]});
  if (params.temperature <= 0) {
    return *std::find_if(kept.begin(), kept.end(), [&](int32_t id) { return logits[id] == best; });
  }
  std::vector<double> sums;
  double sum = 0;
  for (int32_t id : kept) sums.push_back(sum += std::exp((logits[id] - best) / params.temperature));
  const double target = uniform * sum;
  for (double s : sums) *near = *near || Close(s, target, sum);
  const size_t place = std::lower_bound(sums.begin(), sums.end(), target) - sums.begin();
  return kept[std::min(place, kept.size() - 1)];
}

struct Controls {
  std::vector<int32_t> mask;  // empty: none
  std::vector<int32_t> ids;   // of adjustments
  std::vector<float> bias, repetition, penalty;
};

// Arguments of one row.
SampleArgs ArgsOf(const std::vector<float>& logits, const Params& params, const float* uniform,
                  const Controls& controls, int32_t* has_mask, int32_t* count, int32_t* id) {
  static constexpr float kNever = 0.5f;
  SampleArgs args;
  args.logits = logits.data();
  args.vocabulary = args.logits_stride = static_cast<int64_t>(logits.size());
  args.temperature = &params.temperature;
  args.top_k = &params.top_k;
  args.top_p = &params.top_p;
  args.min_p = &params.min_p;
  args.typical_p = &params.typical_p;
  args.xtc_probability = &params.xtc_probability;
  args.xtc_threshold = &params.xtc_threshold;
  args.uniforms = uniform;
  args.xtc_uniforms = &kNever;
  *has_mask = !controls.mask.empty();
  args.has_mask = has_mask;
  args.token_mask = controls.mask.data();
  *count = static_cast<int32_t>(controls.ids.size());
  args.num_adjustments = count;
  args.places = *count;
  args.adjust_ids = controls.ids.data();
  args.bias = controls.bias.data();
  args.repetition = controls.repetition.data();
  args.penalty = controls.penalty.data();
  args.ids = id;
  return args;
}

int32_t SampleOne(Isa isa, const std::vector<float>& logits, const Params& params, float uniform,
                  const Controls& controls = {}) {
  std::vector<double> scratch(SampleScratchBytes(static_cast<int64_t>(logits.size())) / sizeof(double));
  int32_t id = -99, has_mask, count;
  const SampleArgs args = ArgsOf(logits, params, &uniform, controls, &has_mask, &count, &id);
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

TEST(Sample, TypicalAndXtcMatchTheDefinition) {
  ForEachIsa([](Isa isa) {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> uniform(0, 1);
    int compared = 0;
    for (int trial = 0; trial < 400; ++trial) {
      Params params;
      params.temperature = trial % 5 == 0 ? 0 : 0.2f + uniform(random) * 2;
      if (trial % 3 == 0) params.top_k = 1 + static_cast<int32_t>(random() % 200);
      if (trial % 4 == 0) params.top_p = uniform(random);
      if (trial % 7 == 0) params.min_p = 0.1f * uniform(random);
      if (trial % 2 == 0) params.typical_p = 0.02f + 0.97f * uniform(random);
      if (trial % 2 == 1 || trial % 11 == 0) {
        params.xtc_probability = 1;
        params.xtc_threshold = 0.01f + 0.2f * uniform(random);
      }
      const int64_t vocabulary = std::vector<int64_t>{1, 3, 130, 1500, 9000}[static_cast<size_t>(trial) % 5];
      std::vector<float> logits = RandomFloats(vocabulary, static_cast<uint32_t>(trial), trial % 3 == 1 ? 6 : 2);
      for (float& logit : logits) logit = std::round(logit * 8) / 8;
      if (vocabulary > 2) logits[1] = -kInf;
      bool near;
      const float u = uniform(random);
      const int32_t expected = Draw(logits, params, u, &near);
      if (near) continue;
      ++compared;
      EXPECT_EQ(SampleOne(isa, logits, params, u), expected)
          << "trial " << trial << " V " << vocabulary << " T " << params.temperature << " k " << params.top_k << " p "
          << params.top_p << " typical " << params.typical_p << " xtc " << params.xtc_threshold;
    }
    EXPECT_GT(compared, 250);
  });
}

// The same as sampling from logits that were changed by hand.
TEST(Sample, MaskAndAdjustmentsChangeTheLogitsFirst) {
  ForEachIsa([](Isa isa) {
    std::mt19937 random(9);
    for (int64_t vocabulary : {1, 31, 32, 33, 1000}) {
      const std::vector<float> logits = RandomFloats(vocabulary, 3, 3);
      for (int trial = 0; trial < 20; ++trial) {
        Controls controls;
        std::vector<float> changed = logits;
        if (trial % 4 != 1) {
          for (int64_t i = 0; i < (vocabulary + 31) / 32; ++i) controls.mask.push_back(static_cast<int32_t>(random()));
          controls.mask.front() |= 1;
        }
        for (int64_t id = trial; id < vocabulary && trial % 4 != 2; id += 7) {
          controls.ids.push_back(static_cast<int32_t>(id));
          controls.bias.push_back(static_cast<float>(random() % 9) - 4);
          controls.repetition.push_back(1 + static_cast<float>(random() % 4));
          controls.penalty.push_back(static_cast<float>(random() % 5) - 2);
          const float biased = changed[id] + controls.bias.back();
          const float factor = controls.repetition.back();
          changed[id] = (biased > 0 ? biased / factor : biased * factor) - controls.penalty.back();
        }
        for (int64_t id = 0; id < vocabulary && !controls.mask.empty(); ++id) {
          if ((controls.mask[id / 32] >> (id % 32) & 1) == 0) changed[id] = -kInf;
        }
        const Params params = {trial % 3 == 0 ? 0.0f : 1.0f, 20, 0.9f};
        const float u = static_cast<float>(random() % 1000) / 1000;
        EXPECT_EQ(SampleOne(isa, logits, params, u, controls), SampleOne(isa, changed, params, u));
      }
    }
    EXPECT_EQ(SampleOne(isa, {1, 2, 3}, {0}, 0.5f, {.mask = {0}}), -1);
    EXPECT_EQ(SampleOne(isa, {1, NAN, 3}, {0}, 0.5f, {.mask = {1}}), -1) << "a mask hides no NaN";
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
      // The best of what is left may be far below the best: nothing underflows.
      EXPECT_EQ(SampleOne(isa, {5, 4.9f, 4, 3}, {.temperature = 1e-9f, .xtc_probability = 1}, u), 2);
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
    for (float temperature : {0.0f, 1.0f}) {
      EXPECT_EQ(SampleOne(isa, std::vector<float>(131, -kInf), {temperature}, 0.5f), -1);
    }
  });
}

TEST(Sample, RowsDoNotTouchEachOther) {
  ForEachIsa([](Isa isa) {
    const int64_t rows = 6, vocabulary = 1001;
    std::vector<float> logits = RandomFloats(rows * vocabulary, 4, 2);
    logits[2 * vocabulary + 7] = NAN;
    const std::vector<float> temperature = {1, 0, 1, 0.5f, 2, 1}, top_p = {1, 1, 0.5f, 0.9f, 1, 0.7f},
                             min_p = {0, 0, 0, 0.1f, 0, 0}, uniforms = {0.1f, 0.9f, 0.4f, 0.6f, 0.3f, 0.8f},
                             typical_p = {1, 1, 1, 0.5f, 1, 0.9f}, xtc_probability = {0, 1, 0, 0, 0.6f, 0.4f},
                             threshold(rows, 0.01f), adjusts = {1, 2, 3, 4, 5, 6};
    const std::vector<int32_t> top_k = {0, 0, 3, 20, 7, 0}, has_mask = {1, 0, 1, 0, 0, 1}, count = {0, 1, 1, 0, 1, 0},
                               adjust_ids = {4, 5, 6, 7, 8, 9}, mask(rows * 32, 0x5a5a5a5a);
    std::vector<int32_t> together(rows), apart(rows);
    std::vector<double> scratch(SampleScratchBytes(vocabulary) / sizeof(double));
    SampleArgs args = {logits.data(),          vocabulary,       vocabulary,      temperature.data(),
                       top_k.data(),           top_p.data(),     min_p.data(),    typical_p.data(),
                       xtc_probability.data(), threshold.data(), uniforms.data(), uniforms.data(),
                       has_mask.data(),        mask.data(),      count.data(),    /*places=*/1,
                       adjust_ids.data(),      adjusts.data(),   adjusts.data(),  adjusts.data(),
                       together.data()};
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
