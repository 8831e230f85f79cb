// Keys turned so that a lane is a position, and values in a form that vectors like. For attention_simd.cc only, like
// simd.h.
#pragma once

#include "cpu/kernels/attention/attention_rows.h"

namespace deepinfer {
namespace {

// Lane l of v[i] becomes lane i of v[l].
DI_INLINE void Transpose(F* v) {
#if defined(__AVX512F__)
  __m512 a[16], b[16];
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_ps((__m512)v[i], (__m512)v[i + 1]);
    a[i + 1] = _mm512_unpackhi_ps((__m512)v[i], (__m512)v[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    for (int j = 0; j < 2; ++j) {
      const __m512d x = _mm512_castps_pd(a[i + j]), y = _mm512_castps_pd(a[i + j + 2]);
      b[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
      b[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
    }
  }
  for (int i = 0; i < 4; ++i) {
    const __m512 low = _mm512_shuffle_f32x4(b[i], b[4 + i], 0x88), high = _mm512_shuffle_f32x4(b[i], b[4 + i], 0xdd);
    const __m512 low2 = _mm512_shuffle_f32x4(b[8 + i], b[12 + i], 0x88);
    const __m512 high2 = _mm512_shuffle_f32x4(b[8 + i], b[12 + i], 0xdd);
    v[i] = (F)_mm512_shuffle_f32x4(low, low2, 0x88);
    v[4 + i] = (F)_mm512_shuffle_f32x4(high, high2, 0x88);
    v[8 + i] = (F)_mm512_shuffle_f32x4(low, low2, 0xdd);
    v[12 + i] = (F)_mm512_shuffle_f32x4(high, high2, 0xdd);
  }
#elif defined(__AVX2__) && !defined(DI_FIXED_ORDER)
  __m256 a[8], b[8];
  for (int i = 0; i < 8; i += 2) {
    a[i] = _mm256_unpacklo_ps((__m256)v[i], (__m256)v[i + 1]);
    a[i + 1] = _mm256_unpackhi_ps((__m256)v[i], (__m256)v[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    for (int j = 0; j < 2; ++j) {
      const __m256d x = _mm256_castps_pd(a[i + j]), y = _mm256_castps_pd(a[i + j + 2]);
      b[i + 2 * j] = _mm256_castpd_ps(_mm256_unpacklo_pd(x, y));
      b[i + 2 * j + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(x, y));
    }
  }
  for (int i = 0; i < 4; ++i) {
    v[i] = (F)_mm256_permute2f128_ps(b[i], b[4 + i], 0x20);
    v[4 + i] = (F)_mm256_permute2f128_ps(b[i], b[4 + i], 0x31);
  }
#else
  float lanes[kLanes][kLanes];
  for (int i = 0; i < kLanes; ++i) Store(lanes[i], v[i]);
  for (int l = 0; l < kLanes; ++l) {
    for (int i = 0; i < kLanes; ++i) v[l][i] = lanes[i][l];
  }
#endif
}

// Calls load(row, d) for kLanes keys at a time and keep(j, d, column) for each d < size: lane i of the column is what
// key j + i has in place d. Keys [begin, end) from the tile's start, whole vectors. What is ahead is fetched meanwhile;
// `cold`: the next keys too, which nobody has fetched before.
template <class T, class LoadAt, class Keep>
DI_INLINE void TransposeKeys(const T* const* k, int begin, int end, int64_t size, int64_t head, bool cold, Ahead& ahead,
                             LoadAt load, Keep keep) {
  constexpr int kLinesRead = kLanes * static_cast<int>(sizeof(F)) / 64;
  for (int j = begin; j < end; j += kLanes) {
    const T* const* rows = k + j;
    for (int i = 0; cold && j + kLanes < end && i < kLanes; ++i) {
      const char* row = reinterpret_cast<const char*>(rows[kLanes + i]);
      for (int64_t at = 0; at < head * static_cast<int64_t>(sizeof(T)); at += 64) __builtin_prefetch(row + at, 0, 2);
    }
    for (int64_t d = 0; d < size; d += kLanes) {
      F lanes[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) lanes[i] = load(rows[i], d);
      ahead.Fetch(kLinesRead);
      Transpose(lanes);
      if (d + kLanes <= size) {
#pragma GCC unroll 16
        for (int l = 0; l < kLanes; ++l) keep(j, d + l, lanes[l]);
      } else {
        F some[kLanes];  // not the vectors above: indexed by a variable they would be memory
#pragma GCC unroll 16
        for (int l = 0; l < kLanes; ++l) some[l] = lanes[l];
        for (int l = 0; d + l < size; ++l) keep(j, d + l, some[l]);
      }
    }
  }
}

// Dimensions from d on; zeros past the head.
template <class T>
DI_INLINE F LoadUpTo(const T* row, int64_t d, int64_t head) {
  if (d + kLanes <= head) return Load(row + d);
  return d < head ? LoadPart(row + d, head - d, 0.0f) : F{};
}

// Row d of keys[][kTile] is dimension d; with `swapped` pairs of dimensions change places. Returns the rows.
template <class T>
[[gnu::noinline]] int64_t StageKeys(const T* const* k, int begin, int end, int64_t head, bool swapped, bool cold,
                                    Ahead& ahead, float* keys) {
  const auto load = [head](const T* row, int64_t d) { return LoadUpTo(row, d, head); };
  const int64_t size = swapped ? head + head % 2 : head;
  const int64_t flip = swapped ? 1 : 0;
  TransposeKeys(k, begin, end, size, head, cold, ahead, load,
                [=](int j, int64_t d, F column) { Store(keys + (d ^ flip) * kTile + j, column); });
  return size;
}

#if defined(__AVX512F__)
// The lanes of a row from 4-byte word `word` on; zeros past the head.
template <class T>
DI_INLINE F LoadWords(const T* row, int64_t word, int64_t head) {
  constexpr int64_t kEach = 4 / sizeof(T);
  const int64_t left = head - kEach * word;
  __m512i words;
  if (left >= kEach * kLanes) {
    memcpy(&words, row + kEach * word, sizeof words);
  } else {
    const uint64_t present = (uint64_t{1} << (left * static_cast<int64_t>(sizeof(T)))) - 1;
    words = _mm512_maskz_loadu_epi8(present, row + kEach * word);
  }
  return (F)words;
}

// Row d of F16 keys[][kTile] is dimension d, as it is stored: converted when it is read, by few rows. Returns the rows.
template <class T>
[[gnu::noinline]] int64_t StageHalves(const T* const* k, int begin, int end, int64_t head, bool cold, Ahead& ahead,
                                      float* keys) {
  F16* halves = reinterpret_cast<F16*>(keys);
  const auto load = [head](const T* row, int64_t pair) { return LoadWords(row, pair, head); };
  const auto keep = [=](int j, int64_t pair, F column) {
    F16* to = halves + 2 * pair * kTile + j;
    const __m256i even = _mm512_cvtepi32_epi16((__m512i)column);
    const __m256i odd = _mm512_cvtepi32_epi16(_mm512_srli_epi32((__m512i)column, 16));
    memcpy(to, &even, sizeof even);
    memcpy(to + kTile, &odd, sizeof odd);
  };
  TransposeKeys(k, begin, end, (head + 1) / 2, head, cold, ahead, load, keep);
  return head;
}
#endif

#if defined(__AVX512BF16__)
// Row p of keys is the dimensions 2p and 2p + 1 as two bf16. Returns the rows.
[[gnu::noinline]] int64_t StagePairs(const Bf16* const* k, int begin, int end, int64_t head, bool cold, Ahead& ahead,
                                     float* keys) {
  const auto load = [head](const Bf16* row, int64_t pair) { return LoadWords(row, pair, head); };
  TransposeKeys(k, begin, end, (head + 1) / 2, head, cold, ahead, load,
                [=](int j, int64_t pair, F column) { Store(keys + pair * kTile + j, column); });
  return (head + 1) / 2;
}

// The same of codes of 8 bits, which bf16 holds exactly: they are turned four at a time and widened after.
template <class T>
[[gnu::noinline]] int64_t StagePairs(const T* const* k, int begin, int end, int64_t head, bool cold, Ahead& ahead,
                                     float* keys) {
  const auto load = [head](const T* row, int64_t word) { return LoadWords(row, word, head); };
  const BytePlanes planes = PlanesOf<T>();
  const auto keep = [=](int j, int64_t word, F column) {
    __m512i pairs[2];
    WidenCodes<T>(planes, (__m512i)column, pairs);
    Store(keys + 2 * word * kTile + j, (F)pairs[0]);
    Store(keys + (2 * word + 1) * kTile + j, (F)pairs[1]);
  };
  TransposeKeys(k, begin, end, (head + 3) / 4, head, cold, ahead, load, keep);
  return (head + 3) / 4 * 2;
}
#endif

// f32 [span][padded], padded with zeros, as LoadValue has them.
template <class T>
DI_INLINE void StageValues(SpanRows<T>& rows, int begin, int end, int64_t head, int64_t padded, float* values) {
  const int lines = static_cast<int>(head * static_cast<int64_t>(sizeof(T)) / 64) + 1;
  for (int j = begin; j < end; ++j) {
    rows.ahead.Fetch(lines);
    for (int64_t d = 0; d < padded; d += kLanes) {
      F v = {};
      if (d + kLanes <= head) {
        v = LoadValue(rows.v[j] + d);
      } else if (d < head) {
        T part[kLanes] = {};
        memcpy(part, rows.v[j] + d, static_cast<size_t>(head - d) * sizeof(T));
        v = LoadValue(part);
      }
      Store(values + j * padded + d, v);
    }
  }
}

}  // namespace
}  // namespace deepinfer
