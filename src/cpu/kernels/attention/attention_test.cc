#include "cpu/kernels/attention/attention.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/thread_team.h"
#include "cpu/kernels/test_util.h"

namespace deepinfer {
namespace {

struct Request {
  int32_t first_position, tokens;
};

struct Problem {
  DType activation = DType::kF32, cache = DType::kF32;
  int64_t query_heads = 4, kv_heads = 2, head_size = 64, block_size = 32;
  int32_t window = 0;
  float softcap = 0;
  std::vector<Request> requests;
  bool sinks = false;
  float k_scale = 1, v_scale = 1;
};

constexpr DType kCaches[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kI8};

// A cache in which every place that no request owns, and every position after a request's last, holds NaN.
class Fixture {
 public:
  explicit Fixture(const Problem& p) : p(p), max_blocks(0), k(p.cache, 0), v(p.cache, 0), q(p.activation, 0) {
    int64_t used = 1, tokens = 0;
    for (const Request& r : p.requests) {
      const int64_t need = (r.first_position + r.tokens + p.block_size - 1) / p.block_size;
      max_blocks = std::max(max_blocks, need + 1);
      used += need;
      tokens += r.tokens;
    }
    num_blocks = used + 2;
    const int64_t elements = num_blocks * p.kv_heads * p.block_size * p.head_size;
    k = Array(p.cache, elements, NAN);
    v = Array(p.cache, elements, NAN);
    if (p.cache == DType::kI8) k_scales.assign(elements / p.head_size, NAN);
    v_scales = k_scales;
    if (p.sinks) sinks = RandomFloats(p.query_heads, 12);
    q = Array(p.activation, RandomFloats(tokens * p.query_heads * p.head_size, 11));
    table.assign(p.requests.size() * max_blocks, -1);
    query_start = {0};
    int32_t next = static_cast<int32_t>(used);  // handed out downwards, so that blocks are not in order
    for (size_t r = 0; r < p.requests.size(); ++r) {
      const Request& request = p.requests[r];
      const int64_t length = request.first_position + request.tokens;
      for (int64_t b = 0; b * p.block_size < length; ++b) table[r * max_blocks + b] = --next + 1;
      const std::vector<float> values = RandomFloats(2 * length * p.kv_heads * p.head_size, 100 + r);
      size_t from = 0;
      for (int64_t j = 0; j < length; ++j) {
        for (int64_t h = 0; h < p.kv_heads; ++h) {
          const int64_t row = Place(r, h, j);
          // Codes of i8: values reach 4 or so.
          const float step = p.cache == DType::kI8 ? 0.03f + 0.001f * static_cast<float>(j % 7) : 1;
          if (p.cache == DType::kI8) {
            k_scales[row / p.head_size] = step;
            v_scales[row / p.head_size] = step;
          }
          for (int64_t d = 0; d < p.head_size; ++d) {
            k.Set(row + d, values[from++] / step);
            v.Set(row + d, values[from++] / step);
          }
        }
      }
      for (int32_t t = 0; t < request.tokens; ++t) positions.push_back(request.first_position + t);
      query_start.push_back(query_start.back() + request.tokens);
    }
  }

  int64_t Place(size_t request, int64_t head, int64_t position) const {
    const int64_t block = table[request * max_blocks + position / p.block_size];
    return ((block * p.kv_heads + head) * p.block_size + position % p.block_size) * p.head_size;
  }

  int64_t RowElements() const { return p.query_heads * p.head_size; }

  PagedAttentionArgs Args(Array* out) {
    PagedAttentionArgs args;
    args.q = q.data();
    args.q_stride = args.out_stride = RowElements();
    args.out = out->data();
    args.k_cache = k.data();
    args.v_cache = v.data();
    args.num_blocks = num_blocks;
    args.kv_heads = p.kv_heads;
    args.block_size = p.block_size;
    args.head_size = p.head_size;
    args.query_heads = p.query_heads;
    args.block_tables = table.data();
    args.max_blocks = max_blocks;
    args.query_start = query_start.data();
    args.positions = positions.data();
    args.scale = 1 / std::sqrt(static_cast<float>(p.head_size));
    args.window = p.window;
    args.softcap = p.softcap;
    args.k_scale = p.k_scale;
    args.v_scale = p.v_scale;
    args.k_scales = k_scales.empty() ? nullptr : k_scales.data();
    args.v_scales = v_scales.empty() ? nullptr : v_scales.data();
    args.sinks = sinks.empty() ? nullptr : sinks.data();
    args.live_tokens = static_cast<int64_t>(positions.size());
    args.live_requests = static_cast<int64_t>(p.requests.size());
    return args;
  }

  Array Run(Isa isa, PagedAttentionArgs args, int members, Array out) {
    const size_t bytes = PagedAttentionScratchBytes(p.head_size, args.max_blocks * args.block_size, members);
    std::vector<float> scratch(bytes / sizeof(float), NAN);
    std::vector<std::atomic<int32_t>> done(members);
    args.done = done.data();
    args.out = out.data();
    args.scratch = scratch.data();
    const AttentionKernels kernels = ChoosePagedAttention(isa, p.activation, p.cache);
    ThreadTeam team(members);
    auto run = [&](int member, int all) { kernels.run(args, member, all); };
    team.Run(run);
    for (const std::atomic<int32_t>& each : done) EXPECT_EQ(each.load(), 0);
    return out;
  }
  Array Run(Isa isa, int members) {
    Array out(p.activation, q.size(), 99);
    return Run(isa, Args(&out), members, out);
  }

  std::vector<double> Expected(size_t request, int64_t token, int64_t head) const {
    const int64_t kv_head = head / (p.query_heads / p.kv_heads);
    const int64_t q_at = token * RowElements() + head * p.head_size;
    const int64_t position = positions[token];
    const int64_t first = p.window > 0 ? std::max<int64_t>(0, position - p.window + 1) : 0;
    std::vector<double> scores, out(p.head_size);
    for (int64_t j = first; j <= position; ++j) {
      double dot = 0;
      const int64_t row = Place(request, kv_head, j);
      for (int64_t d = 0; d < p.head_size; ++d) dot += double{q[q_at + d]} * k[row + d];
      dot *= k_scales.empty() ? p.k_scale : k_scales[row / p.head_size];
      dot /= std::sqrt(static_cast<double>(p.head_size));
      scores.push_back(p.softcap > 0 ? p.softcap * std::tanh(dot / p.softcap) : dot);
    }
    double max = *std::max_element(scores.begin(), scores.end());
    if (p.sinks) max = std::max<double>(max, sinks[head]);
    double sum = p.sinks ? std::exp(sinks[head] - max) : 0;
    for (double& s : scores) sum += s = std::exp(s - max);
    for (int64_t j = first; j <= position; ++j) {
      const int64_t row = Place(request, kv_head, j);
      const double scale = v_scales.empty() ? p.v_scale : v_scales[row / p.head_size];
      for (int64_t d = 0; d < p.head_size; ++d) out[d] += scores[j - first] / sum * scale * v[row + d];
    }
    return out;
  }

  Problem p;
  int64_t max_blocks, num_blocks;
  Array k, v, q;
  std::vector<float> k_scales, v_scales, sinks;
  std::vector<int32_t> table, query_start, positions;
};

void ExpectMatches(Fixture& fixture, const Array& out) {
  for (size_t r = 0; r < fixture.p.requests.size(); ++r) {
    for (int64_t t = fixture.query_start[r]; t < fixture.query_start[r + 1]; ++t) {
      for (int64_t h = 0; h < fixture.p.query_heads; ++h) {
        const std::vector<double> expected = fixture.Expected(r, t, h);
        double norm = 0, error = 0;
        for (int64_t d = 0; d < fixture.p.head_size; ++d) {
          const double difference = out[t * fixture.RowElements() + h * fixture.p.head_size + d] - expected[d];
          norm += expected[d] * expected[d];
          error += difference * difference;
        }
        // Weights are off by about the scores' absolute error, a few ulp of |q||k| / sqrt(D).
        ASSERT_LE(std::sqrt(error), std::sqrt(norm) * (Epsilon(fixture.p.activation) + 3e-6) + 1e-6)
            << "request " << r << " token " << t << " head " << h;
      }
    }
  }
}

TEST(PagedAttention, MatchesDoubleOverTypesAndShapes) {
  ForEachIsa([](Isa isa) {
    std::vector<Problem> problems;
    for (DType activation : {DType::kF32, DType::kBF16}) {
      for (DType cache : kCaches) {
        problems.push_back({activation, cache, 9, 3, 64, 32, 0, 0, {{0, 70}, {130, 1}, {40, 5}}});
        problems.push_back({activation, cache, 5, 1, 27, 32, 300, 0, {{600, 1}, {250, 9}}, /*sinks=*/true});
      }
      problems.push_back(
          {activation, DType::kF8E4M3, 3, 1, 64, 16, 0, 0, {{300, 2}}, /*sinks=*/false, /*k_scale=*/0.5f, 3.0f});
    }
    for (int64_t head_size : {5, 8, 80, 128, 256}) {
      problems.push_back({DType::kF32, DType::kBF16, 4, 1, head_size, 32, 0, 0, {{0, 33}, {90, 1}}});
      for (DType cache : {DType::kF16, DType::kF8E4M3, DType::kI8}) {
        problems.push_back({DType::kBF16, cache, 4, 1, head_size, 32, 0, 0, {{0, 33}, {90, 1}}});
      }
    }
    for (int64_t block_size : {1, 7, 16, 128}) {
      problems.push_back({DType::kF32, DType::kF32, 2, 2, 32, block_size, 0, 0, {{0, 20}, {150, 2}}});
    }
    for (int32_t window : {1, 5, 64, 100}) {
      problems.push_back({DType::kF32, DType::kBF16, 2, 1, 64, 32, window, 0, {{0, 150}, {200, 1}, {30, 40}}});
    }
    problems.push_back({DType::kF32, DType::kF32, 4, 2, 64, 32, 0, 2.5f, {{0, 20}, {99, 1}}});
    problems.push_back({DType::kBF16, DType::kBF16, 100, 1, 16, 32, 0, 0, {{0, 3}, {64, 1}}});
    for (size_t i = 0; i < problems.size(); ++i) {
      SCOPED_TRACE(i);
      Fixture fixture(problems[i]);
      ExpectMatches(fixture, fixture.Run(isa, 1));
    }
  });
}

// Decode rows alone, a whole prefill, chunks of any size, one to three threads: the same bits.
TEST(PagedAttention, BitsDoNotDependOnBatchChunksOrThreads) {
  ForEachIsaAndActivation([](Isa isa, DType activation) {
    for (const auto& [cache, head_size] : std::vector<std::pair<DType, int64_t>>{
             {activation, 64}, {activation, 72}, {DType::kF16, 64}, {DType::kF8E4M3, 64}, {DType::kI8, 64}}) {
      for (int32_t window : {0, 50}) {
        if (window == 0 && cache != activation) continue;
        Fixture fixture({activation, cache, 6, 2, head_size, 32, window, 0, {{0, 150}, {77, 3}, {100, 1}}});
        const Array together = fixture.Run(isa, 1);
        for (int members : {2, 3}) EXPECT_EQ(fixture.Run(isa, members).bytes(), together.bytes()) << members;
        for (int32_t chunk : {1, 7, 64}) {
          if (chunk == 1 && cache != activation) continue;
          Array pieces(activation, fixture.q.size());
          for (int64_t first = 0; first < 150; first += chunk) {
            PagedAttentionArgs args = fixture.Args(&pieces);
            const std::vector<int32_t> start = {0, static_cast<int32_t>(std::min<int64_t>(chunk, 150 - first))};
            args.q = fixture.q.At(first * fixture.RowElements());
            args.positions = &fixture.positions[first];
            args.query_start = start.data();
            args.live_tokens = start[1];
            args.live_requests = 1;
            Array piece(activation, start[1] * fixture.RowElements());
            piece = fixture.Run(isa, args, 1 + chunk % 2, piece);
            ASSERT_EQ(std::memcmp(piece.data(), together.At(first * fixture.RowElements()), piece.bytes().size()), 0)
                << "chunk " << chunk << " at " << first;
          }
        }
      }
    }
  });
}

// Chunks see the later positions of the cache filled or not, and garbage there must not change a bit.
TEST(PagedAttention, LaterPositionsAndTheNullBlockNeverReachAResult) {
  ForEachIsa([](Isa isa) {
    Fixture fixture({DType::kF32, DType::kBF16, 4, 2, 64, 32, 40, 0, {{60, 9}, {0, 2}}});
    const Array clean = fixture.Run(isa, 1);
    for (int64_t i = 0; i < clean.size(); ++i) ASSERT_FALSE(std::isnan(clean[i]));
    // Poison what the first request's window has passed and what only its last token sees.
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t d = 0; d < 64; ++d) {
        for (int64_t j = 0; j <= 60 - 40; ++j) {
          fixture.k.Set(fixture.Place(0, h, j) + d, NAN);
          fixture.v.Set(fixture.Place(0, h, j) + d, NAN);
        }
        fixture.v.Set(fixture.Place(0, h, 68) + d, INFINITY);
        fixture.k.Set(fixture.Place(0, h, 68) + d, NAN);
      }
    }
    const Array poisoned = fixture.Run(isa, 1);
    for (int64_t t = 0; t < 11; ++t) {
      const size_t bytes = fixture.RowElements() * sizeof(float);
      const bool same =
          std::memcmp(poisoned.At(t * fixture.RowElements()), clean.At(t * fixture.RowElements()), bytes) == 0;
      EXPECT_EQ(same, t != 8) << t;
    }
    EXPECT_TRUE(std::isnan(poisoned[8 * fixture.RowElements()]));
  });
}

// One row of a long context is cut at spans: whoever computes which, the bits are those of one thread, and of the same
// row among others in a prefill.
TEST(PagedAttention, MembersThatShareARowGiveTheSameBits) {
  ForEachIsa([](Isa isa) {
    for (DType cache : kCaches) {
      SCOPED_TRACE(ToString(cache));
      for (int32_t window : {0, 700}) {
        Fixture fixture({DType::kBF16, cache, 4, 1, 64, 32, window, 0, {{1500, 3}, {40, 1}}, /*sinks=*/true});
        const Array alone = fixture.Run(isa, 1);
        ExpectMatches(fixture, alone);
        for (int members : {2, 3, 5, 8}) EXPECT_EQ(fixture.Run(isa, members).bytes(), alone.bytes()) << members;
        Array row(DType::kBF16, fixture.RowElements());
        PagedAttentionArgs args = fixture.Args(&row);
        const std::vector<int32_t> start = {0, 1};
        args.q = fixture.q.At(2 * fixture.RowElements());
        args.positions = &fixture.positions[2];
        args.query_start = start.data();
        args.live_tokens = args.live_requests = 1;
        row = fixture.Run(isa, args, 3, row);
        EXPECT_EQ(std::memcmp(row.data(), alone.At(2 * fixture.RowElements()), row.bytes().size()), 0);
      }
    }
  });
}

// No order depends on the width of vectors.
TEST(PagedAttention, BitsAreEqualOnAllInstructionSetsWithFma) {
  for (DType activation : {DType::kF32, DType::kBF16}) {
    for (DType cache : kCaches) {
      for (int64_t head_size : {64, 27}) {
        SCOPED_TRACE(std::string(ToString(activation)) + " " + ToString(cache));
        Fixture fixture({activation, cache, 6, 2, head_size, 32, 0, 20, {{0, 150}, {300, 1}}, /*sinks=*/true});
        std::vector<uint8_t> first;
        for (Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16}) {
          if (!MachineHas(isa)) continue;
          const Array out = fixture.Run(isa, 2);
          if (first.empty()) first = out.bytes();
          EXPECT_EQ(out.bytes(), first) << ToString(isa);
        }
      }
    }
  }
}

// A NaN in a row that is attended to reaches the result, whatever the cache's type.
TEST(PagedAttention, NaNGoesThrough) {
  ForEachIsa([](Isa isa) {
    for (DType cache : kCaches) {
      SCOPED_TRACE(ToString(cache));
      for (const bool in_keys : {true, false}) {
        Fixture fixture({DType::kF32, cache, 2, 1, 64, 32, 0, 0, {{300, 1}}});
        const int64_t row = fixture.Place(0, 0, 17);
        if (cache == DType::kI8) {
          (in_keys ? fixture.k_scales : fixture.v_scales)[row / 64] = NAN;
        } else {
          (in_keys ? fixture.k : fixture.v).Set(row + 3, NAN);
        }
        EXPECT_TRUE(std::isnan(fixture.Run(isa, 2)[3]));
      }
    }
  });
}

TEST(PagedAttention, PaddingIsNotTouchedAndBadTablesAreHarmless) {
  ForEachIsa([](Isa isa) {
    Fixture fixture({DType::kF32, DType::kF32, 2, 1, 16, 32, 0, 0, {{0, 4}, {0, 2}}});
    Array out(DType::kF32, fixture.q.size(), 99);
    PagedAttentionArgs args = fixture.Args(&out);
    args.live_requests = 1;
    args.live_tokens = 4;
    out = fixture.Run(isa, args, 2, out);
    EXPECT_NE(out[3 * fixture.RowElements()], 99);
    EXPECT_EQ(out[4 * fixture.RowElements()], 99);
    // Tables with entries past the cache, positions past the table and negative ones: any finite-time answer will do,
    // reads outside the cache (seen by the address sanitizer) will not.
    fixture.table.assign(fixture.table.size(), 1 << 30);
    fixture.positions = {1 << 30, -5, 2147483647, 3, -2147483647 - 1, 0};
    out = fixture.Run(isa, fixture.Args(&out), 2, out);
    for (int64_t i = 0; i < fixture.RowElements(); ++i) EXPECT_EQ(out[fixture.RowElements() + i], 0);
  });
}

TEST(ChoosePagedAttention, NamesItsKernelOrHasNone) {
  EXPECT_STREQ(ChoosePagedAttention(Isa::kPortable, DType::kBF16, DType::kF16).name,
               "paged_attention_bf16_f16_Portable");
  EXPECT_EQ(ChoosePagedAttention(Isa::kPortable, DType::kF16, DType::kF16).run, nullptr);
  EXPECT_STREQ(ChoosePagedAttention(Isa::kPortable, DType::kF32, DType::kI8).name, "paged_attention_f32_i8_Portable");
  EXPECT_EQ(ChoosePagedAttention(Isa::kPortable, DType::kF32, DType::kI32).run, nullptr);
}

}  // namespace
}  // namespace deepinfer
