#include "cpu/kernels/attention/attention.h"

#include <algorithm>

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
};

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
          for (int64_t d = 0; d < p.head_size; ++d) {
            k.Set(Place(r, h, j) + d, values[from++]);
            v.Set(Place(r, h, j) + d, values[from++]);
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
    args.live_tokens = static_cast<int64_t>(positions.size());
    args.live_requests = static_cast<int64_t>(p.requests.size());
    return args;
  }

  Array Run(Isa isa, PagedAttentionArgs args, int members, Array out) {
    std::vector<float> scratch(members * PagedAttentionScratchBytes(p.head_size) / sizeof(float), NAN);
    args.out = out.data();
    args.scratch = scratch.data();
    const AttentionKernels kernels = ChoosePagedAttention(isa, p.activation, p.cache);
    ThreadTeam team(members);
    auto run = [&](int member, int all) { kernels.run(args, member, all); };
    team.Run(run);
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
      for (int64_t d = 0; d < p.head_size; ++d) dot += double{q[q_at + d]} * k[Place(request, kv_head, j) + d];
      dot /= std::sqrt(static_cast<double>(p.head_size));
      scores.push_back(p.softcap > 0 ? p.softcap * std::tanh(dot / p.softcap) : dot);
    }
    const double max = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& s : scores) sum += s = std::exp(s - max);
    for (int64_t j = first; j <= position; ++j) {
      for (int64_t d = 0; d < p.head_size; ++d) {
        out[d] += scores[j - first] / sum * v[Place(request, kv_head, j) + d];
      }
    }
    return out;
  }

  Problem p;
  int64_t max_blocks, num_blocks;
  Array k, v, q;
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
      for (DType cache : {DType::kF32, DType::kBF16, DType::kF16}) {
        problems.push_back({activation, cache, 9, 3, 64, 32, 0, 0, {{0, 70}, {130, 1}, {40, 5}}});
      }
    }
    for (int64_t head_size : {5, 8, 80, 128, 256}) {
      problems.push_back({DType::kF32, DType::kBF16, 4, 1, head_size, 32, 0, 0, {{0, 33}, {90, 1}}});
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
    for (int64_t head_size : {64, 72}) {
      for (int32_t window : {0, 50}) {
        Fixture fixture({activation, activation, 6, 2, head_size, 32, window, 0, {{0, 150}, {77, 3}, {100, 1}}});
        const Array together = fixture.Run(isa, 1);
        for (int members : {2, 3}) EXPECT_EQ(fixture.Run(isa, members).bytes(), together.bytes()) << members;
        for (int32_t chunk : {1, 7, 64}) {
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
  EXPECT_EQ(ChoosePagedAttention(Isa::kPortable, DType::kF32, DType::kI8).run, nullptr);
}

}  // namespace
}  // namespace deepinfer
