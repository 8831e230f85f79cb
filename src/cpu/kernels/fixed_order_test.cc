// Portable numerics: kernels whose order of sums could depend on the instruction set give the same bits with each.
#include <algorithm>

#include "base/thread_team.h"
#include "cpu/kernels/attention/attention.h"
#include "cpu/kernels/glu/glu.h"
#include "cpu/kernels/norm/norm.h"
#include "cpu/kernels/sample/sample.h"
#include "cpu/kernels/test_util.h"

namespace deepinfer {
namespace {

constexpr Numerics kPortable = Numerics::kPortable;

// make(isa) computes something; what it gives must not depend on the instruction set.
template <class Make>
void ExpectSameOnEveryIsa(Make make) {
  const auto floor = make(Isa::kPortable);
  ForEachIsa([&](Isa isa) { EXPECT_TRUE(make(isa) == floor); });
}

// As kernels run: on members of a team, which flush denormals.
template <class Body>
void OnTeam(Body body) {
  ThreadTeam team(1);
  auto run = [&](int, int) { body(); };
  team.Run(run);
}

TEST(FixedOrder, Norm) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t width : {1, 7, 16, 63, 64, 576, 1000}) {
      const int64_t rows = 5;
      const Array x(dtype, RandomFloats(rows * width, 1)), residual(dtype, RandomFloats(rows * width, 2));
      const std::vector<float> weight = RandomFloats(width, 3);
      ExpectSameOnEveryIsa([&](Isa isa) {
        Array out(dtype, rows * width), sum(dtype, rows * width), summed(dtype, rows * width);
        RmsNormArgs norm{x.data(), width, weight.data(), out.data(), width, width, 1e-5f, 1.0f};
        AddRmsNormArgs add{norm, residual.data(), width, sum.data(), width};
        add.norm.out = summed.data();
        const NormKernels* kernels = ChooseNorm(isa, dtype, kPortable);
        OnTeam([&] {
          kernels->rms_norm(norm, 0, rows);
          kernels->add_rms_norm(add, 0, rows);
        });
        return std::vector{out.bytes(), sum.bytes(), summed.bytes()};
      });
    }
  }
}

TEST(FixedOrder, Glu) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const int64_t width = 1000;
    const Array gate(dtype, RandomFloats(width, 1, 20)), up(dtype, RandomFloats(width, 2));
    ExpectSameOnEveryIsa([&](Isa isa) {
      Array silu(dtype, width), gelu(dtype, width);
      GluArgs args{gate.data(), width, up.data(), width, silu.data(), width, width};
      const GluKernels* kernels = ChooseGlu(isa, dtype, kPortable);
      OnTeam([&] {
        kernels->silu(args, 0, 1);
        args.out = gelu.data();
        kernels->gelu_tanh(args, 0, 1);
      });
      return std::vector{silu.bytes(), gelu.bytes()};
    });
  }
}

TEST(FixedOrder, Sampling) {
  const int64_t vocabulary = 5003, rows = 40, kmax = 5;
  const std::vector<float> logits = RandomFloats(rows * vocabulary, 1, 4);
  std::vector<float> temperature(rows, 0.8f), top_p(rows, 0.9f), min_p(rows, 0.01f), uniforms;
  std::vector<float> typical_p(rows, 1.0f), xtc_probability(rows, 0.0f);
  std::vector<int32_t> top_k(rows, 0), want(rows, kmax);
  const std::vector<int32_t> none(rows, 0);
  for (int64_t r = 0; r < rows; r += 3) typical_p[r] = 0.8f, xtc_probability[r] = 0.5f;
  for (int64_t r = 0; r < rows; ++r) uniforms.push_back(static_cast<float>(r) / rows);
  for (int64_t r = 0; r < rows; r += 2) top_p[r] = 1.0f, top_k[r] = 40;
  ExpectSameOnEveryIsa([&](Isa isa) {
    const SampleKernels* kernels = ChooseSample(isa, kPortable);
    std::vector<double> scratch(SampleScratchBytes(vocabulary) / 8 + 1);
    std::vector<int32_t> ids(rows), top_ids(rows * kmax);
    std::vector<float> logprob(rows), top_logprobs(rows * kmax);
    SampleArgs args;
    args.logits = logits.data();
    args.logits_stride = args.vocabulary = vocabulary;
    args.temperature = temperature.data();
    args.top_k = top_k.data();
    args.top_p = top_p.data();
    args.min_p = min_p.data();
    args.typical_p = typical_p.data();
    args.xtc_probability = xtc_probability.data();
    args.xtc_threshold = min_p.data();
    args.uniforms = args.xtc_uniforms = uniforms.data();
    args.has_mask = args.num_adjustments = none.data();
    args.ids = ids.data();
    TopLogprobsArgs top;
    top.logits = logits.data();
    top.logits_stride = top.vocabulary = vocabulary;
    top.ids = ids.data();
    top.want = want.data();
    top.logprob = logprob.data();
    top.top_ids = top_ids.data();
    top.top_logprobs = top_logprobs.data();
    top.kmax = kmax;
    OnTeam([&] {
      kernels->sample(args, 0, rows, scratch.data());
      kernels->top_logprobs(top, 0, rows, scratch.data());
    });
    return std::tuple(ids, top_ids, logprob, top_logprobs);
  });
}

TEST(FixedOrder, Attention) {
  const int64_t kv_heads = 2, group = 3, block_size = 16, tokens = 37, past = 50, max_blocks = 8;
  for (const DType activation : {DType::kF32, DType::kBF16}) {
    for (const DType cache : {DType::kF32, DType::kBF16, DType::kF16}) {
      for (const int64_t head : {16, 40, 64, 128}) {
        for (const float softcap : {0.0f, 20.0f}) {
          const Array q(activation, RandomFloats(tokens * kv_heads * group * head, 1));
          const Array k(cache, RandomFloats(max_blocks * kv_heads * block_size * head, 2));
          const Array v(cache, RandomFloats(max_blocks * kv_heads * block_size * head, 3));
          std::vector<int32_t> table, positions, query_start = {0, 1, static_cast<int32_t>(tokens)};
          for (int32_t b = 0; b < 2 * max_blocks; ++b) table.push_back((b * 3 + 1) % max_blocks);
          for (int32_t t = 0; t < tokens; ++t) positions.push_back(static_cast<int32_t>(past) + t);
          ExpectSameOnEveryIsa([&](Isa isa) {
            Array out(activation, q.size());
            std::vector<float> scratch(PagedAttentionScratchBytes(head, max_blocks * block_size, 1) / 4 + 16);
            PagedAttentionArgs args;
            args.q = q.data();
            args.q_stride = args.out_stride = kv_heads * group * head;
            args.out = out.data();
            args.k_cache = k.data();
            args.v_cache = v.data();
            args.num_blocks = max_blocks;
            args.kv_heads = kv_heads;
            args.block_size = block_size;
            args.head_size = head;
            args.query_heads = kv_heads * group;
            args.block_tables = table.data();
            args.max_blocks = max_blocks;
            args.query_start = query_start.data();
            args.positions = positions.data();
            args.scale = 0.2f;
            args.window = softcap > 0 ? 30 : 0;
            args.softcap = softcap;
            args.live_tokens = tokens;
            args.live_requests = 2;
            args.scratch = scratch.data();
            OnTeam([&] { ChoosePagedAttention(isa, activation, cache, kPortable).run(args, 0, 1); });
            return out.bytes();
          });
        }
      }
    }
  }
}

}  // namespace
}  // namespace deepinfer
