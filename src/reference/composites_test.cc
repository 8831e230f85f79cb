// Each decomposition against a plain scalar computation in double.
#include <cmath>
#include <numeric>
#include <random>

#include "reference/harness.h"

namespace deepinfer::reference {
namespace {

using ir::DimTag;
using ir::Op;
using ir::Value;

std::vector<float> Normal(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

void ExpectClose(const std::vector<float>& got, const std::vector<double>& want, double tolerance,
                 size_t count = SIZE_MAX) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < std::min(count, got.size()); ++i) {
    ASSERT_NEAR(got[i], want[i], tolerance * (1 + std::fabs(want[i]))) << "at " << i;
  }
}

TEST(CompositesTest, EmbeddingScalesAndClampsIds) {
  Harness h;
  const std::vector<float> table = Normal(5 * 3, 1);
  const std::vector<int32_t> ids = {4, 0, -1, 9};
  h.Out("y", h.Decomposed(Op::kEmbedding, {h.In("table", {5, 3}, table), h.In("ids", {4}, ids)}, {{"scale", 2.5}})[0]);
  ASSERT_TRUE(h.Run());
  std::vector<double> want;
  for (const int row : {4, 0, 0, 4}) {
    for (int j = 0; j < 3; ++j) want.push_back(2.5 * table[row * 3 + j]);
  }
  ExpectClose(h.Get<float>("y"), want, 1e-6);
}

std::vector<double> RmsNorm(const std::vector<double>& x, const std::vector<float>& w, double eps, double offset) {
  std::vector<double> y(x.size());
  const size_t n = w.size();
  for (size_t r = 0; r < x.size() / n; ++r) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += x[r * n + i] * x[r * n + i];
    for (size_t i = 0; i < n; ++i)
      y[r * n + i] = x[r * n + i] / std::sqrt(sum / static_cast<double>(n) + eps) * (w[i] + offset);
  }
  return y;
}

TEST(CompositesTest, RmsNormWithOffsetAndAddRmsNorm) {
  for (const double offset : {0.0, 1.0}) {
    Harness h;
    const std::vector<float> x = Normal(2 * 3 * 16, 2);
    const std::vector<float> r = Normal(2 * 3 * 16, 3);
    const std::vector<float> w = Normal(16, 4);
    const ir::AttrMap attrs = {{"eps", 1e-5}, {"offset", offset}};
    const Value xv = h.In("x", {2, 3, 16}, x);
    const Value wv = h.In("w", {16}, w);
    h.Out("y", h.Decomposed(Op::kRmsNorm, {xv, wv}, attrs)[0]);
    const auto both = h.Decomposed(Op::kAddRmsNorm, {xv, h.In("r", {2, 3, 16}, r), wv}, attrs);
    h.Out("sum", both[0]);
    h.Out("normed", both[1]);
    ASSERT_TRUE(h.Run());
    std::vector<double> sum(x.size());
    for (size_t i = 0; i < x.size(); ++i) sum[i] = static_cast<double>(x[i]) + r[i];
    ExpectClose(h.Get<float>("y"), RmsNorm({x.begin(), x.end()}, w, 1e-5, offset), 1e-5);
    ExpectClose(h.Get<float>("sum"), sum, 1e-6);
    ExpectClose(h.Get<float>("normed"), RmsNorm(sum, w, 1e-5, offset), 1e-5);
  }
}

TEST(CompositesTest, RopeOfBothStylesWithAPartThatIsNotRotated) {
  constexpr int kT = 3, kHeads = 2, kWidth = 10, kHalf = 4;
  for (const int64_t interleaved : {0, 1}) {
    Harness h;
    const std::vector<float> x = Normal(kT * kHeads * kWidth, 5);
    const std::vector<int32_t> positions = {0, 7, 300};
    const std::vector<float> freq = {1.0f, 0.3f, 0.05f, 0.001f};
    const auto table =
        h.Decomposed(Op::kRopeTable, {h.In("p", {kT}, positions), h.In("f", {kHalf}, freq)}, {{"mscale", 1.1}});
    h.Out("cos", table[0]);
    h.Out("y", h.Decomposed(Op::kRope, {h.In("x", {kT, kHeads, kWidth}, x), table[0], table[1]},
                            {{"interleaved", interleaved}})[0]);
    ASSERT_TRUE(h.Run());
    std::vector<double> want(x.begin(), x.end());
    std::vector<double> cosines;
    for (int t = 0; t < kT; ++t) {
      for (int i = 0; i < kHalf; ++i) cosines.push_back(1.1 * std::cos(positions[t] * static_cast<double>(freq[i])));
      for (int n = 0; n < kHeads; ++n) {
        const int base = (t * kHeads + n) * kWidth;
        for (int i = 0; i < kHalf; ++i) {
          const double angle = positions[t] * static_cast<double>(freq[i]);
          const int first = base + (interleaved != 0 ? 2 * i : i);
          const int second = base + (interleaved != 0 ? 2 * i + 1 : i + kHalf);
          want[first] = 1.1 * (x[first] * std::cos(angle) - x[second] * std::sin(angle));
          want[second] = 1.1 * (x[second] * std::cos(angle) + x[first] * std::sin(angle));
        }
      }
    }
    ExpectClose(h.Get<float>("cos"), cosines, 1e-5);
    ExpectClose(h.Get<float>("y"), want, 3e-5);
  }
}

std::vector<double> Linear(const std::vector<float>& x, const std::vector<float>& w, const std::vector<float>& bias,
                           int k) {
  std::vector<double> y;
  for (size_t t = 0; t < x.size() / k; ++t) {
    for (size_t n = 0; n < w.size() / k; ++n) {
      double sum = bias.empty() ? 0 : bias[n];
      for (int i = 0; i < k; ++i) sum += static_cast<double>(x[t * k + i]) * w[n * k + i];
      y.push_back(sum);
    }
  }
  return y;
}

TEST(CompositesTest, LinearAndMultiLinearWithAndWithoutBias) {
  constexpr int kT = 3, kK = 40;
  const std::vector<float> x = Normal(kT * kK, 6);
  const std::vector<float> w1 = Normal(5 * kK, 7);
  const std::vector<float> w2 = Normal(9 * kK, 8);
  const std::vector<float> b1 = Normal(5, 9);
  const std::vector<float> b2 = Normal(9, 10);
  Harness h;
  const Value xv = h.In("x", {kT, kK}, x);
  const Value w1v = h.In("w1", {5, kK}, w1);
  const Value w2v = h.In("w2", {9, kK}, w2);
  const Value b1v = h.In("b1", {5}, b1);
  const Value b2v = h.In("b2", {9}, b2);
  h.Out("plain", h.Decomposed(Op::kLinear, {xv, w1v})[0]);
  h.Out("biased", h.Decomposed(Op::kLinear, {xv, w1v, b1v})[0]);
  const auto two = h.Decomposed(Op::kMultiLinear, {xv, w1v, w2v}, {{"weights", int64_t{2}}});
  const auto with =
      h.Decomposed(Op::kMultiLinear, {xv, w1v, w2v, b1v, b2v}, {{"weights", int64_t{2}}, {"bias", int64_t{1}}});
  h.Out("two0", two[0]);
  h.Out("two1", two[1]);
  h.Out("with0", with[0]);
  h.Out("with1", with[1]);
  ASSERT_TRUE(h.Run());
  ExpectClose(h.Get<float>("plain"), Linear(x, w1, {}, kK), 1e-5);
  ExpectClose(h.Get<float>("biased"), Linear(x, w1, b1, kK), 1e-5);
  ExpectClose(h.Get<float>("two0"), Linear(x, w1, {}, kK), 1e-5);
  ExpectClose(h.Get<float>("two1"), Linear(x, w2, {}, kK), 1e-5);
  ExpectClose(h.Get<float>("with0"), Linear(x, w1, b1, kK), 1e-5);
  ExpectClose(h.Get<float>("with1"), Linear(x, w2, b2, kK), 1e-5);
}

TEST(CompositesTest, GluOfBothActivations) {
  const std::vector<float> gate = Normal(60, 11);
  const std::vector<float> up = Normal(60, 12);
  for (const char* activation : {"silu", "gelu_tanh"}) {
    Harness h;
    h.Out("y", h.Decomposed(Op::kGlu, {h.In("g", {6, 10}, gate), h.In("u", {6, 10}, up)},
                            {{"activation", std::string(activation)}})[0]);
    ASSERT_TRUE(h.Run());
    std::vector<double> want;
    for (size_t i = 0; i < gate.size(); ++i) {
      const double g = gate[i];
      const double silu = g / (1 + std::exp(-g));
      const double gelu = 0.5 * g * (1 + std::tanh(std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g)));
      want.push_back((activation[0] == 's' ? silu : gelu) * up[i]);
    }
    ExpectClose(h.Get<float>("y"), want, 1e-5);
  }
}

TEST(CompositesTest, PagedSlotIndicesSendWhatIsOutsideToTheNullBlock) {
  Harness h;
  const std::vector<int32_t> slots = {702, -1, 1024, 1023, 0, -2147483647, 2147483647};
  const auto at = h.Decomposed(Op::kPagedSlotIndices, {h.In("slots", {7}, slots)},
                               {{"block_size", int64_t{64}}, {"blocks", int64_t{16}}});
  h.Out("block", at[0]);
  h.Out("offset", at[1]);
  ASSERT_TRUE(h.Run());
  EXPECT_EQ(h.Get<int32_t>("block"), (std::vector<int32_t>{10, 0, 0, 15, 0, 0, 0}));
  EXPECT_EQ(h.Get<int32_t>("offset"), (std::vector<int32_t>{62, 0, 0, 63, 0, 0, 0}));
}

// Paged attention: requests with some cached context and some new tokens, in scattered blocks.
struct Request {
  int context;  // positions written, the new tokens included
  int fresh;    // new tokens, the last positions
};

struct Attention {
  std::vector<Request> requests;
  int64_t pad_tokens = 0;
  int64_t pad_requests = 0;
  int64_t window = 0;
  double softcap = 0;
  bool uniform = false;
};

void CheckAttention(const Attention& a) {
  constexpr int kHeads = 2, kGroup = 3, kWidth = 8, kBlock = 4, kTable = 5;
  int tokens = 0;
  for (const Request& r : a.requests) tokens += r.fresh;
  const int all_tokens = tokens + static_cast<int>(a.pad_tokens);
  const int requests = static_cast<int>(a.requests.size());
  const int all_requests = requests + static_cast<int>(a.pad_requests);
  const int blocks = 1 + requests * kTable;
  // Everything that is not written is NaN: the null block, unused blocks, positions past the context.
  std::vector<float> k(blocks * kHeads * kBlock * kWidth, NAN);
  std::vector<float> v = k;
  std::vector<int32_t> tables(all_requests * kTable, -1);
  std::vector<int32_t> start(all_requests + 1, tokens);
  std::vector<int32_t> positions(all_tokens, 0);
  const std::vector<float> q = Normal(all_tokens * kHeads * kGroup * kWidth, 20);
  const auto slot = [&](int r, int p, int h) {
    const int block = tables[r * kTable + p / kBlock];
    return ((block * kHeads + h) * kBlock + p % kBlock) * kWidth;
  };
  std::vector<double> want(q.size(), 0);
  int token = 0;
  for (int r = 0; r < requests; ++r) {
    start[r] = token;
    for (int j = 0; j * kBlock < a.requests[r].context; ++j) tables[r * kTable + j] = 1 + j * requests + r;
    const std::vector<float> rows = Normal(a.requests[r].context * kHeads * kWidth * 2, 30 + r);
    for (int p = 0; p < a.requests[r].context; ++p) {
      for (int h = 0; h < kHeads; ++h) {
        for (int d = 0; d < kWidth; ++d) {
          k[slot(r, p, h) + d] = rows[((p * kHeads + h) * kWidth + d) * 2];
          v[slot(r, p, h) + d] = rows[((p * kHeads + h) * kWidth + d) * 2 + 1];
        }
      }
    }
    for (int f = 0; f < a.requests[r].fresh; ++f, ++token) {
      const int own = a.requests[r].context - a.requests[r].fresh + f;
      positions[token] = own;
      for (int head = 0; head < kHeads * kGroup; ++head) {
        const int at = (token * kHeads * kGroup + head) * kWidth;
        std::vector<double> weight(own + 1, 0);
        double total = 0;
        for (int p = 0; p <= own; ++p) {
          if (a.window > 0 && p <= own - a.window) continue;
          double score = 0;
          for (int d = 0; d < kWidth; ++d) score += static_cast<double>(q[at + d]) * k[slot(r, p, head / kGroup) + d];
          score *= 0.4;
          if (a.softcap > 0) score = a.softcap * std::tanh(score / a.softcap);
          weight[p] = std::exp(score);
          total += weight[p];
        }
        for (int p = 0; p <= own; ++p) {
          if (weight[p] == 0) continue;
          for (int d = 0; d < kWidth; ++d) want[at + d] += weight[p] / total * v[slot(r, p, head / kGroup) + d];
        }
      }
    }
  }
  Harness h;
  h.Live({tokens, 0, requests});
  const ir::Dim token_dim(all_tokens, DimTag::kTokens);
  const ir::Dim request_dim(all_requests, a.uniform ? DimTag::kTokens : DimTag::kRequests);
  const std::vector<Value> operands = {
      h.In("q", {token_dim, kHeads * kGroup, kWidth}, q), h.In("k", {blocks, kHeads, kBlock, kWidth}, k),
      h.In("v", {blocks, kHeads, kBlock, kWidth}, v),     h.In("tables", {request_dim, kTable}, tables),
      h.In("start", {all_requests + 1}, start),           h.In("positions", {token_dim}, positions)};
  h.Out("y", h.Decomposed(
                 Op::kPagedAttention, operands,
                 {{"scale", 0.4}, {"window", a.window}, {"softcap", a.softcap}, {"uniform", int64_t{a.uniform}}})[0]);
  const Status status = h.Run();
  ASSERT_TRUE(status) << status.error().ToString();
  ExpectClose(h.Get<float>("y"), want, 1e-5, static_cast<size_t>(tokens) * kHeads * kGroup * kWidth);
}

TEST(AttentionTest, UniformDecode) {
  CheckAttention({.requests = {{1, 1}, {7, 1}, {20, 1}}, .uniform = true});
  CheckAttention({.requests = {{5, 1}}, .pad_tokens = 3, .pad_requests = 3, .uniform = true});
}

TEST(AttentionTest, RaggedPrefillOfSeveralRequests) {
  CheckAttention({.requests = {{9, 9}}});
  CheckAttention({.requests = {{9, 4}, {3, 3}, {20, 1}, {17, 6}}});
}

TEST(AttentionTest, PaddingIsNeverRead) {
  CheckAttention({.requests = {{9, 4}, {3, 3}}, .pad_tokens = 5, .pad_requests = 3});
}

TEST(AttentionTest, WindowAndSoftcap) {
  for (const bool uniform : {false, true}) {
    const std::vector<Request> requests =
        uniform ? std::vector<Request>{{13, 1}, {2, 1}} : std::vector<Request>{{13, 7}, {2, 2}};
    CheckAttention({.requests = requests, .window = 3, .uniform = uniform});
    CheckAttention({.requests = requests, .window = 1, .uniform = uniform});
    CheckAttention({.requests = requests, .softcap = 2.0, .uniform = uniform});
    CheckAttention(
        {.requests = requests, .pad_tokens = 2, .pad_requests = 2, .window = 5, .softcap = 1.0, .uniform = uniform});
  }
}

struct SampleAdjustment {
  int32_t id;
  float bias = 0, repetition = 1, penalty = 0;
};

struct SampleRow {
  std::vector<float> logits;
  float temperature = 1, top_p = 1, min_p = 0, uniform = 0;
  int32_t top_k = 0;
  float typical_p = 1, xtc_probability = 0, xtc_threshold = 0.1f, xtc_uniform = 0;
  std::optional<int32_t> mask;  // of the first 32 ids
  std::vector<SampleAdjustment> adjustments;
};

std::vector<int32_t> Sample(const std::vector<SampleRow>& rows, int live = -1) {
  Harness h;
  const int64_t n = static_cast<int64_t>(rows.size());
  const int64_t vocab = static_cast<int64_t>(rows[0].logits.size());
  constexpr int64_t kPlaces = 3;
  h.Live({0, live < 0 ? static_cast<int32_t>(n) : live, 0});
  const ir::Dim dim(n, DimTag::kRows);
  const auto per_row = [&](const char* name, auto field) {
    std::vector<std::decay_t<decltype(field(rows[0]))>> values;
    for (const SampleRow& r : rows) values.push_back(field(r));
    return h.In(name, {dim}, values);
  };
  std::vector<float> logits, bias, repetition, penalty;
  std::vector<int32_t> ids;
  for (const SampleRow& r : rows) {
    logits.insert(logits.end(), r.logits.begin(), r.logits.end());
    for (size_t i = 0; i < kPlaces; ++i) {
      const SampleAdjustment dead = {-7, NAN, NAN, NAN};
      const SampleAdjustment& each = i < r.adjustments.size() ? r.adjustments[i] : dead;
      ids.push_back(each.id);
      bias.push_back(each.bias);
      repetition.push_back(each.repetition);
      penalty.push_back(each.penalty);
    }
  }
  std::vector<ir::Value> operands = {
      h.In("l", {dim, vocab}, logits),
      per_row("t", [](const SampleRow& r) { return r.temperature; }),
      per_row("k", [](const SampleRow& r) { return r.top_k; }),
      per_row("p", [](const SampleRow& r) { return r.top_p; }),
      per_row("m", [](const SampleRow& r) { return r.min_p; }),
      per_row("typical", [](const SampleRow& r) { return r.typical_p; }),
      per_row("xp", [](const SampleRow& r) { return r.xtc_probability; }),
      per_row("xt", [](const SampleRow& r) { return r.xtc_threshold; }),
      per_row("u", [](const SampleRow& r) { return r.uniform; }),
      per_row("xu", [](const SampleRow& r) { return r.xtc_uniform; }),
      per_row("has_mask", [](const SampleRow& r) { return static_cast<int32_t>(r.mask.has_value()); }),
      h.In("mask", {dim, 1},
           [&] {
             std::vector<int32_t> words;
             for (const SampleRow& r : rows) words.push_back(r.mask.value_or(0));
             return words;
           }()),
      per_row("n", [](const SampleRow& r) { return static_cast<int32_t>(r.adjustments.size()); }),
      h.In("ids", {dim, kPlaces}, ids),
      h.In("bias", {dim, kPlaces}, bias),
      h.In("repetition", {dim, kPlaces}, repetition),
      h.In("penalty", {dim, kPlaces}, penalty)};
  h.Out("y", h.Decomposed(Op::kSample, operands)[0]);
  const Status status = h.Run();
  EXPECT_TRUE(status) << (status ? "" : status.error().ToString());
  return h.Get<int32_t>("y");
}

int32_t SampleOne(SampleRow row) {
  return Sample({std::move(row)})[0];
}

std::vector<float> Log(const std::vector<double>& p) {
  std::vector<float> logits;
  for (const double x : p) logits.push_back(static_cast<float>(std::log(x)));
  return logits;
}

constexpr float kAlmostOne = 0.99999994f;

TEST(SampleTest, GreedyTakesTheLowestIdOfATie) {
  EXPECT_EQ(SampleOne({.logits = {1, 3, 2, 3}, .temperature = 0, .uniform = 0.9f}), 1);
  EXPECT_EQ(SampleOne({.logits = {5, 5, 5}, .temperature = 0, .uniform = 0.9f}), 0);
  EXPECT_EQ(SampleOne({.logits = {-INFINITY, -2, -INFINITY}, .temperature = 0}), 1);
}

TEST(SampleTest, DrawWalksTheDistributionInOrderOfIds) {
  const std::vector<float> logits = Log({0.5, 0.3, 0.2});
  EXPECT_EQ(SampleOne({.logits = logits, .uniform = 0.0f}), 0);
  EXPECT_EQ(SampleOne({.logits = logits, .uniform = 0.5f}), 0);
  EXPECT_EQ(SampleOne({.logits = logits, .uniform = 0.51f}), 1);
  EXPECT_EQ(SampleOne({.logits = logits, .uniform = 0.81f}), 2);
  EXPECT_EQ(SampleOne({.logits = logits, .uniform = kAlmostOne}), 2);
}

TEST(SampleTest, LowTemperatureAgreesWithGreedy) {
  for (const float u : {0.0f, 0.5f, kAlmostOne}) {
    EXPECT_EQ(SampleOne({.logits = {1, 3, 2, 2.9f}, .temperature = 1e-4f, .uniform = u}), 1);
    EXPECT_EQ(SampleOne({.logits = {1, 3, 2, 2.9f}, .temperature = 1e-30f, .uniform = u}), 1);
  }
  // At a high temperature the draw is nearly uniform.
  EXPECT_EQ(SampleOne({.logits = {1, 3, 2, 2.9f}, .temperature = 1e6f, .uniform = 0.1f}), 0);
}

TEST(SampleTest, TopKKeepsTheBestWithTiesToTheLowestId) {
  const std::vector<float> logits = Log({0.1, 0.4, 0.2, 0.3});
  EXPECT_EQ(SampleOne({.logits = logits, .uniform = kAlmostOne, .top_k = 1}), 1);
  EXPECT_EQ(SampleOne({.logits = logits, .uniform = 0.0f, .top_k = 2}), 1);
  EXPECT_EQ(SampleOne({.logits = logits, .uniform = kAlmostOne, .top_k = 2}), 3);
  EXPECT_EQ(SampleOne({.logits = logits, .uniform = 0.0f, .top_k = 100}), 0);
  EXPECT_EQ(SampleOne({.logits = {1, 1, 1, 1}, .uniform = kAlmostOne, .top_k = 2}), 1);
}

TEST(SampleTest, TopPKeepsTheSmallestSetThatReachesIt) {
  const std::vector<float> logits = Log({0.1, 0.4, 0.2, 0.3});
  EXPECT_EQ(SampleOne({.logits = logits, .top_p = 0.65f, .uniform = kAlmostOne}), 3);  // 0.4 + 0.3
  EXPECT_EQ(SampleOne({.logits = logits, .top_p = 0.65f, .uniform = 0.0f}), 1);
  EXPECT_EQ(SampleOne({.logits = logits, .top_p = 0.8f, .uniform = 0.5f}), 2);
  EXPECT_EQ(SampleOne({.logits = logits, .top_p = 0.0f, .uniform = kAlmostOne}), 1);  // never nothing
  EXPECT_EQ(SampleOne({.logits = logits, .top_p = 1.0f, .uniform = 0.0f}), 0);
}

TEST(SampleTest, MinPIsRelativeToTheBest) {
  const std::vector<float> logits = Log({0.1, 0.4, 0.2, 0.3});
  EXPECT_EQ(SampleOne({.logits = logits, .min_p = 0.6f, .uniform = 0.0f}), 1);
  EXPECT_EQ(SampleOne({.logits = logits, .min_p = 0.6f, .uniform = kAlmostOne}), 3);
  EXPECT_EQ(SampleOne({.logits = logits, .min_p = 0.26f, .uniform = 0.0f}), 1);
  EXPECT_EQ(SampleOne({.logits = logits, .min_p = 0.24f, .uniform = 0.0f}), 0);
  EXPECT_EQ(SampleOne({.logits = logits, .min_p = 1.0f, .uniform = kAlmostOne}), 1);
}

TEST(SampleTest, FiltersApplyInOrder) {
  // top_k leaves .4 and .3; of those top_p = .5 leaves the first (0.4 / 0.7 > 0.5).
  const std::vector<float> logits = Log({0.1, 0.4, 0.2, 0.3});
  EXPECT_EQ(SampleOne({.logits = logits, .top_p = 0.5f, .uniform = kAlmostOne, .top_k = 2}), 1);
  EXPECT_EQ(SampleOne({.logits = logits, .top_p = 0.6f, .uniform = kAlmostOne, .top_k = 2}), 3);
}

TEST(SampleTest, AdjustmentsApplyInOrder) {
  const auto greedy = [](std::vector<float> logits, std::vector<SampleAdjustment> list) {
    return SampleOne({.logits = std::move(logits), .temperature = 0, .adjustments = std::move(list)});
  };
  EXPECT_EQ(greedy({1, 2, 3, -1}, {}), 2);
  EXPECT_EQ(greedy({1, 2, 3, -1}, {{.id = 0, .bias = 2.5f}}), 0);
  EXPECT_EQ(greedy({1, 2, 3, -1}, {{.id = 2, .repetition = 2}}), 1);        // 3 / 2 < 2
  EXPECT_EQ(greedy({-1.5f, -2, -1, -3}, {{.id = 2, .repetition = 2}}), 0);  // -1 * 2 < -1.5
  EXPECT_EQ(greedy({1, 2, 3, -1}, {{.id = 2, .penalty = 1.5f}}), 1);
  EXPECT_EQ(greedy({1, 2, 3, -1}, {{.id = 3, .penalty = -5}, {.id = 2, .penalty = 1}}), 3);
  // (-1 + 3) / 2 - 0.5 = 0.5: the bias first, so the repetition divides.
  EXPECT_EQ(greedy({0.6f, -9, -9, -1}, {{.id = 3, .bias = 3, .repetition = 2, .penalty = 0.5f}}), 0);
  EXPECT_EQ(greedy({0.4f, -9, -9, -1}, {{.id = 3, .bias = 3, .repetition = 2, .penalty = 0.5f}}), 3);
}

TEST(SampleTest, TheMaskHoldsBackEvenTheBest) {
  const std::vector<float> logits = {1, 5, 2, 5, 3};
  EXPECT_EQ(SampleOne({.logits = logits, .temperature = 0, .mask = 0b11111}), 1);
  EXPECT_EQ(SampleOne({.logits = logits, .temperature = 0, .mask = 0b11101}), 3);
  EXPECT_EQ(SampleOne({.logits = logits, .temperature = 0, .mask = 0b00101}), 2);
  for (const float u : {0.0f, kAlmostOne}) {
    EXPECT_EQ(SampleOne({.logits = logits, .temperature = 9, .uniform = u, .mask = 0b10000}), 4);
    EXPECT_EQ(SampleOne({.logits = logits, .uniform = u, .mask = 0}), -1);
  }
  EXPECT_EQ(SampleOne({.logits = logits, .temperature = 0, .mask = 0}), -1);
  EXPECT_EQ(SampleOne({.logits = {1, NAN, 2, 0, 0}, .temperature = 0, .mask = 1}), -1) << "a NaN is never hidden";
  EXPECT_EQ(SampleOne({.logits = logits, .temperature = 0, .mask = 0b00101, .adjustments = {{.id = 1, .bias = 90}}}),
            2);
}

TEST(SampleTest, TypicalKeepsWhatIsNearTheExpectedLogit) {
  // Entropy 1.28 nats: of the distances |-ln p - 1.28| those of .3 (0.08) and .2 (0.33) come first, then .4 (0.36).
  const std::vector<float> logits = Log({0.1, 0.4, 0.2, 0.3});
  const auto range = [&](float typical, float top_p = 1) {
    return std::pair(SampleOne({.logits = logits, .top_p = top_p, .uniform = 0.0f, .typical_p = typical}),
                     SampleOne({.logits = logits, .top_p = top_p, .uniform = kAlmostOne, .typical_p = typical}));
  };
  EXPECT_EQ(range(0.25f), std::pair(3, 3));
  EXPECT_EQ(range(0.45f), std::pair(2, 3));
  EXPECT_EQ(range(0.85f), std::pair(1, 3));
  EXPECT_EQ(range(0.95f), std::pair(0, 3));
  EXPECT_EQ(range(0.45f, 0.5f), std::pair(3, 3)) << "top_p sees what typical_p left";
  EXPECT_EQ(SampleOne({.logits = logits, .temperature = 0, .typical_p = 0.25f}), 3) << "as T -> 0";
  EXPECT_EQ(SampleOne({.logits = logits, .temperature = 1e-6f, .uniform = 0.5f, .typical_p = 0.25f}), 3);
  EXPECT_EQ(SampleOne({.logits = {2, 2, 2}, .uniform = kAlmostOne, .typical_p = 0.1f}), 2) << "ties stay together";
}

TEST(SampleTest, XtcTakesAllButTheLastOfTheLikely) {
  const std::vector<float> logits = Log({0.1, 0.4, 0.2, 0.3});
  const auto lowest = [&](float threshold, float xtc_uniform, float temperature = 1) {
    return SampleOne({.logits = logits,
                      .temperature = temperature,
                      .uniform = 0.3f,
                      .xtc_probability = 0.5f,
                      .xtc_threshold = threshold,
                      .xtc_uniform = xtc_uniform});
  };
  EXPECT_EQ(lowest(0.25f, 0.6f), 1) << "not this time";
  EXPECT_EQ(lowest(0.25f, 0.4f), 2) << "3 stays, 1 goes: masses .1 .2 .3";
  EXPECT_EQ(lowest(0.15f, 0.4f), 0) << "2 stays, 1 and 3 go";
  EXPECT_EQ(lowest(0.35f, 0.4f), 1) << "a single likely token stays";
  EXPECT_EQ(lowest(0.25f, 0.4f, 0), 3);
  EXPECT_EQ(lowest(0.15f, 0.4f, 0), 2);
  EXPECT_EQ(lowest(0.15f, 0.4f, 1e-6f), 2);
  EXPECT_EQ(SampleOne({.logits = {1, 1, 1}, .uniform = 0.0f, .xtc_probability = 1, .xtc_threshold = 0.3f}), 2);
}

TEST(SampleTest, MaskedTokensAreNeverDrawnAndNaNIsReported) {
  const float kLow = -INFINITY;
  EXPECT_EQ(SampleOne({.logits = {kLow, 1, kLow, 1, kLow}, .uniform = 0.0f}), 1);
  EXPECT_EQ(SampleOne({.logits = {kLow, 1, kLow, 1, kLow}, .uniform = kAlmostOne}), 3);
  EXPECT_EQ(SampleOne({.logits = {kLow, 1, kLow, 1, kLow}, .uniform = kAlmostOne, .top_k = 4}), 3);
  EXPECT_EQ(SampleOne({.logits = {1, NAN, 2}, .temperature = 0}), -1);
  EXPECT_EQ(SampleOne({.logits = {1, NAN, 2}, .uniform = 0.5f}), -1);
  EXPECT_EQ(SampleOne({.logits = {kLow, kLow}, .uniform = 0.5f}), -1);
  EXPECT_EQ(SampleOne({.logits = {kLow, kLow}, .temperature = 0}), -1);
}

TEST(SampleTest, RowsAreIndependent) {
  const std::vector<int32_t> ids = Sample({{.logits = {1, NAN, 2}},
                                           {.logits = {1, 3, 2}, .temperature = 0},
                                           {.logits = Log({0.5, 0.3, 0.2}), .uniform = 0.9f},
                                           {.logits = {NAN, NAN, NAN}}},
                                          /*live=*/3);
  EXPECT_EQ(ids[0], -1);
  EXPECT_EQ(ids[1], 1);
  EXPECT_EQ(ids[2], 2);
}

TEST(TopLogprobsTest, ChosenAndBestAgainstLogSoftmax) {
  constexpr int kRows = 3, kVocab = 50, kBest = 5;
  std::vector<float> logits = Normal(kRows * kVocab, 40);
  logits[7] = logits[3] = 4;  // a tie at the top of row 0
  const std::vector<int32_t> ids = {7, 0, 49};
  Harness h;
  h.Live({0, kRows, 0});
  const ir::Dim rows(kRows + 1, DimTag::kRows);
  std::vector<float> padded = logits;
  padded.resize((kRows + 1) * kVocab, NAN);
  std::vector<int32_t> padded_ids = ids;
  padded_ids.push_back(-1);
  const auto top =
      h.Decomposed(Op::kTopLogprobs,
                   {h.In("l", {rows, kVocab}, padded), h.In("i", {rows}, padded_ids), h.In("w", {rows}, padded_ids)},
                   {{"k", int64_t{kBest}}});
  h.Out("chosen", top[0]);
  h.Out("ids", top[1]);
  h.Out("best", top[2]);
  ASSERT_TRUE(h.Run());
  const auto chosen = h.Get<float>("chosen");
  const auto best_ids = h.Get<int32_t>("ids");
  const auto best = h.Get<float>("best");
  for (int r = 0; r < kRows; ++r) {
    double sum = 0;
    for (int i = 0; i < kVocab; ++i) sum += std::exp(static_cast<double>(logits[r * kVocab + i]));
    std::vector<int> order(kVocab);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return logits[r * kVocab + a] > logits[r * kVocab + b]; });
    EXPECT_NEAR(chosen[r], logits[r * kVocab + ids[r]] - std::log(sum), 1e-5);
    for (int j = 0; j < kBest; ++j) {
      EXPECT_EQ(best_ids[r * kBest + j], order[j]) << r << " " << j;
      EXPECT_NEAR(best[r * kBest + j], logits[r * kVocab + order[j]] - std::log(sum), 1e-5);
    }
  }
}

}  // namespace
}  // namespace deepinfer::reference
