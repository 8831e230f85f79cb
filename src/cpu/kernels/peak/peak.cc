#include "cpu/kernels/peak/peak.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace deepinfer::cpu {
namespace {

constexpr int64_t kSteps = 200000;  // tens of milliseconds
constexpr int kChains = 12;         // independent: latency is 4 to 6 cycles, at two a cycle

// Of each: kSteps steps of kChains multiply-adds; *flops is what that was. The sum keeps the loop from being left out.
using Loop = float (*)(double* flops);

float PortableLoop(double* flops) {
  typedef float V __attribute__((vector_size(16)));
  V sums[kChains] = {}, x = V{} + 1.0f;
  for (int64_t i = 0; i < kSteps; ++i) {
    for (V& sum : sums) sum += x * x;
    asm volatile("" : "+x"(x));
  }
  for (int c = 1; c < kChains; ++c) sums[0] += sums[c];
  *flops = 2.0 * kSteps * kChains * 4;
  return sums[0][0];
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) float Avx2Loop(double* flops) {
  __m256 sums[kChains], x = _mm256_set1_ps(1.0f);
  for (__m256& sum : sums) sum = _mm256_setzero_ps();
  for (int64_t i = 0; i < kSteps; ++i) {
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(x, x, sum);
    asm volatile("" : "+x"(x));
  }
  for (int c = 1; c < kChains; ++c) sums[0] = _mm256_add_ps(sums[0], sums[c]);
  *flops = 2.0 * kSteps * kChains * 8;
  return _mm256_cvtss_f32(sums[0]);
}

__attribute__((target("avx512f"))) float Avx512Loop(double* flops) {
  __m512 sums[kChains], x = _mm512_set1_ps(1.0f);
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  for (int64_t i = 0; i < kSteps; ++i) {
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(x, x, sum);
    asm volatile("" : "+v"(x));
  }
  for (int c = 1; c < kChains; ++c) sums[0] = _mm512_add_ps(sums[0], sums[c]);
  *flops = 2.0 * kSteps * kChains * 16;
  return _mm512_cvtss_f32(sums[0]);
}

__attribute__((target("avx512f,avx512bf16"))) float Avx512Bf16Loop(double* flops) {
  __m512 sums[kChains];
  __m512i x = _mm512_set1_epi16(0x3f80);  // bf16 ones
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  for (int64_t i = 0; i < kSteps; ++i) {
    for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)x);
    asm volatile("" : "+v"(x));
  }
  for (int c = 1; c < kChains; ++c) sums[0] = _mm512_add_ps(sums[0], sums[c]);
  *flops = 2.0 * kSteps * kChains * 32;
  return _mm512_cvtss_f32(sums[0]);
}
#endif

Loop LoopOf(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512Bf16) return Avx512Bf16Loop;
  if (isa == Isa::kAvx512) return Avx512Loop;
  if (isa == Isa::kAvx2) return Avx2Loop;
#endif
  static_cast<void>(isa);
  return PortableLoop;
}

}  // namespace

double MeasurePeakFlops(Isa isa, ThreadTeam* team, int rounds) {
  const Loop loop = LoopOf(isa);
  std::atomic<double> flops{0};
  std::atomic<float> used{0};
  auto body = [&](int /*member*/, int /*members*/) {
    double own = 0;
    used = loop(&own);
    for (double seen = flops; !flops.compare_exchange_weak(seen, seen + own);) {
    }
  };
  double best = 0;
  for (int round = 0; round < rounds; ++round) {
    flops = 0;
    const auto start = std::chrono::steady_clock::now();
    team->Run(body);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best = std::max(best, flops.load() / elapsed.count());
  }
  return best;
}

}  // namespace deepinfer::cpu
