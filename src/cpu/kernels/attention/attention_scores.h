// Products of queries with the keys that attention_stage.h has turned. For attention_simd.cc only, like simd.h.
#pragma once

#include "cpu/kernels/attention/attention_rows.h"

namespace deepinfer {
namespace {

DI_INLINE F Splat(float value) {
  return value - F{};  // no instruction, unlike a sum, which would make a positive zero of a negative one
}

constexpr int kGroupRows = 4;                      // query rows that share what is loaded
constexpr int kKeyVectors = kLanes == 16 ? 4 : 2;  // with them: accumulators of scores
constexpr int kStepLines = kLanes >= 8 ? 2 : 1;    // lines fetched with every dimension that is scored

// How a query meets the transposed keys: f32 by f32.
struct Plain {
  static DI_INLINE F Key(const float* keys, int64_t at) { return Load(keys + at); }
  static DI_INLINE F Query(const float* q) { return Splat(*q); }
  static DI_INLINE F Step(F query, F key, F sum) { return Fma(query, key, sum); }
};
#if defined(__AVX512F__)
// The same of keys that are still f16.
struct Halves : Plain {
  static DI_INLINE F Key(const float* keys, int64_t at) { return Load(reinterpret_cast<const F16*>(keys) + at); }
};
#endif
#if defined(__AVX512BF16__)
// Pairs of bf16: the odd one is added first, then the even one, each rounded like an FMA with FTZ and DAZ.
struct Pairs {
  static DI_INLINE F Key(const float* keys, int64_t at) { return Load(keys + at); }
  static DI_INLINE F Query(const float* q) {
    int32_t pair;
    memcpy(&pair, q, sizeof pair);
    return (F)Set1(pair);
  }
  static DI_INLINE F Step(F query, F key, F sum) {
    return (F)_mm512_dpbf16_ps((__m512)sum, (__m512bh)query, (__m512bh)key);
  }
};
#endif

template <class Mode, int R, int N>
DI_INLINE void ScoreBlock(const float* q, int64_t padded, const float* keys, int j, int64_t length, float* scores,
                          Ahead* ahead) {
  F sum[R * N] = {};
  for (int64_t d = 0; d < length; ++d) {
    if (ahead != nullptr) ahead->Fetch(kStepLines);
    F key[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) key[n] = Mode::Key(keys, d * kTile + j + n * kLanes);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const F query = Mode::Query(q + r * padded + d);
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) sum[r * N + n] = Mode::Step(query, key[n], sum[r * N + n]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) Store(scores + r * kSpan + n * kLanes, sum[r * N + n]);
  }
}

// Positions [begin, end) of a tile, whole vectors.
template <class Mode, int R>
[[gnu::noinline]] void ScoreRows(const float* q, int64_t padded, const float* keys, int64_t length, int begin, int end,
                                 float* scores, Ahead* ahead) {
  int j = begin;
  for (; j + kKeyVectors * kLanes <= end; j += kKeyVectors * kLanes) {
    ScoreBlock<Mode, R, kKeyVectors>(q, padded, keys, j, length, scores + j, ahead);
  }
  for (; j < end; j += kLanes) ScoreBlock<Mode, R, 1>(q, padded, keys, j, length, scores + j, nullptr);
}

template <class Mode>
DI_INLINE void ScoreTile(const AttentionScratch& scratch, int64_t rows, int64_t padded, int64_t length, int begin,
                         int end, float* scores, Ahead* ahead) {
  int64_t row = 0;
  for (; row + kGroupRows <= rows; row += kGroupRows) {
    ScoreRows<Mode, kGroupRows>(scratch.q + row * padded, padded, scratch.keys, length, begin, end,
                                scores + row * kSpan, row == 0 ? ahead : nullptr);
  }
  const float* q = scratch.q + row * padded;
  float* at = scores + row * kSpan;
  Ahead* first = row == 0 ? ahead : nullptr;
  if (rows - row == 1) ScoreRows<Mode, 1>(q, padded, scratch.keys, length, begin, end, at, first);
  if (rows - row == 2) ScoreRows<Mode, 2>(q, padded, scratch.keys, length, begin, end, at, first);
  if (rows - row == 3) ScoreRows<Mode, 3>(q, padded, scratch.keys, length, begin, end, at, first);
}

}  // namespace
}  // namespace deepinfer
