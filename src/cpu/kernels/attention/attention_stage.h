// How K and V of a span come from the paged cache into a form that vectors like: rows found through the block table,
// keys transposed so that a lane is a position. For attention_simd.cc only, like simd.h.
#pragma once

#include "cpu/kernels/attention/attention_internal.h"
#include "cpu/kernels/kv_rows.h"

namespace deepinfer {
namespace {

constexpr int kTile = kAttentionTile;
constexpr int kSpan = kAttentionSpan;

DI_INLINE F Splat(float value) {
  return value - F{};  // no instruction, unlike a sum, which would make a positive zero of a negative one
}

// The rows of one span, by position from its start. Beside the visible range, up to whole vectors, they are some
// visible row, and so masked but sound.
template <class T>
struct SpanRows {
  const T* k[kSpan];
  const T* v[kSpan];
  const T* next[kSpan];   // keys of the next span, or any others: fetched while the values of this one are added
  float k_scales[kSpan];  // of i8
  float v_scales[kSpan];
};

DI_INLINE int64_t BlockAt(const PagedAttentionArgs& args, const AttentionUnit& unit, int64_t position) {
  const int64_t entry = unit.table[position / args.block_size];
  const int64_t block = entry < 0 || entry >= args.num_blocks ? 0 : entry;
  return (block * args.kv_heads + unit.kv_head) * args.block_size;
}

// Calls visit(j, place, run) for positions [begin, end) of the span at `start`: `run` rows from `place` on are in the
// cache one behind the other, in one block.
template <class Visit>
DI_INLINE void ForEachRun(const PagedAttentionArgs& args, const AttentionUnit& unit, int64_t start, int begin, int end,
                          Visit visit) {
  for (int j = begin; j < end;) {
    const int64_t offset = (start + j) % args.block_size;
    const int run = static_cast<int>(Smaller<int64_t>(end - j, args.block_size - offset));
    visit(j, BlockAt(args, unit, start + j) + offset, run);
    j += run;
  }
}

// begin < end, of the positions of the span at `start`; `after`: how many of the next span will be asked for.
template <class T>
DI_INLINE void FindRows(const PagedAttentionArgs& args, const AttentionUnit& unit, int64_t start, int begin, int end,
                        int after, SpanRows<T>& rows) {
  const T* k_cache = static_cast<const T*>(args.k_cache);
  const T* v_cache = static_cast<const T*>(args.v_cache);
  ForEachRun(args, unit, start, begin, end, [&](int j, int64_t place, int run) {
    for (int i = 0; i < run; ++i) {
      rows.k[j + i] = k_cache + (place + i) * args.head_size;
      rows.v[j + i] = v_cache + (place + i) * args.head_size;
    }
    if constexpr (sizeof(T) == 1) {
      if (args.k_scales != nullptr) {
        memcpy(rows.k_scales + j, args.k_scales + place, run * sizeof(float));
        memcpy(rows.v_scales + j, args.v_scales + place, run * sizeof(float));
      }
    }
  });
  const auto fill = [&](int j) {
    rows.k[j] = rows.k[begin];
    rows.v[j] = rows.v[begin];
  };
  for (int j = begin / kLanes * kLanes; j < begin; ++j) fill(j);
  for (int j = end; j % kLanes != 0; ++j) fill(j);
  ForEachRun(args, unit, start + kSpan, 0, after, [&](int j, int64_t place, int run) {
    for (int i = 0; i < run; ++i) rows.next[j + i] = k_cache + (place + i) * args.head_size;
  });
  for (int j = after; j < end; ++j) rows.next[j] = rows.k[begin];
}

// Into the second level cache.
DI_INLINE void FetchRow(const void* row, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(static_cast<const char*>(row) + at, 0, 2);
}

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

// Calls load(row, d) for kLanes keys at a time and puts what lane l of it holds in row place(d + l) of `keys`, whose
// rows are kTile positions. Keys [begin, end) from the tile's start, whole vectors; `size` lanes of each row are kept.
// The values of the same positions are fetched meanwhile; `cold`: the keys ahead too, which nobody has fetched before.
template <class T, class LoadAt, class Place>
DI_INLINE void TransposeKeys(const T* const* k, const T* const* v, int begin, int end, int64_t size, int64_t row_bytes,
                             bool cold, float* keys, LoadAt load, Place place) {
  for (int j = begin; j < end; j += kLanes) {
    for (int i = 0; i < kLanes; ++i) FetchRow(v[j + i], row_bytes);
    for (int i = 0; cold && j + kLanes < end && i < kLanes; ++i) FetchRow(k[j + kLanes + i], row_bytes);
    for (int64_t d = 0; d < size; d += kLanes) {
      F lanes[kLanes];
      for (int i = 0; i < kLanes; ++i) lanes[i] = load(k[j + i], d);
      Transpose(lanes);
      const int count = static_cast<int>(Smaller<int64_t>(kLanes, size - d));
      for (int l = 0; l < count; ++l) Store(keys + place(d + l) * kTile + j, lanes[l]);
    }
  }
}

// Dimensions from d on; zeros past the head.
template <class T>
DI_INLINE F LoadUpTo(const T* row, int64_t d, int64_t head) {
  if (d + kLanes <= head) return Load(row + d);
  return d < head ? LoadPart(row + d, head - d, 0.0f) : F{};
}

// Row d of keys[][kTile] is dimension d; with `swapped` pairs of dimensions change places.
template <class T>
DI_INLINE void StageKeys(const T* const* k, const T* const* v, int begin, int end, int64_t head, bool swapped,
                         bool cold, float* keys) {
  const auto load = [head](const T* row, int64_t d) { return LoadUpTo(row, d, head); };
  const int64_t size = swapped ? head + head % 2 : head;
  const int64_t flip = swapped ? 1 : 0;
  TransposeKeys(k, v, begin, end, size, head * static_cast<int64_t>(sizeof(T)), cold, keys, load,
                [flip](int64_t d) { return d ^ flip; });
}

#if defined(__AVX512BF16__)
// Row p of keys is the dimensions 2p and 2p + 1 as they are stored.
DI_INLINE void StagePairs(const Bf16* const* k, const Bf16* const* v, int begin, int end, int64_t head, bool cold,
                          float* keys) {
  const auto load = [head](const Bf16* row, int64_t pair) {
    const int64_t left = head - 2 * pair;
    F v = {};
    if (left >= 2 * kLanes) {
      memcpy(&v, row + 2 * pair, sizeof v);
    } else {
      const __m512i part = _mm512_maskz_loadu_epi16((__mmask32)((1u << left) - 1), row + 2 * pair);
      memcpy(&v, &part, sizeof v);
    }
    return v;
  };
  TransposeKeys(k, v, begin, end, (head + 1) / 2, 2 * head, cold, keys, load, [](int64_t pair) { return pair; });
}
#endif

// f32 [span][padded], padded with zeros.
template <class T>
DI_INLINE void StageValues(const SpanRows<T>& rows, int begin, int end, int64_t head, int64_t padded, float* values) {
  for (int j = begin; j < end; ++j) {
    FetchRow(rows.next[j], head * static_cast<int64_t>(sizeof(T)));
    for (int64_t d = 0; d < padded; d += kLanes) {
      Store(values + j * padded + d, LoadUpTo(rows.v[j], d, head));
    }
  }
}

}  // namespace
}  // namespace deepinfer
