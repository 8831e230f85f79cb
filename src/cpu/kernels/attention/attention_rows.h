// The rows of a span of the paged cache, found through the block table, and the fetching of what comes after them. For
// attention_simd.cc only, like simd.h.
#pragma once

#include "cpu/kernels/attention/attention_internal.h"
#include "cpu/kernels/kv_rows.h"

namespace deepinfer {
namespace {

constexpr int kTile = kAttentionTile;
constexpr int kSpan = kAttentionSpan;

// Memory that is read soon, in order. Whoever works calls Fetch as it goes on, a few lines each time: so the memory is
// busy all the while, and no burst fills the core's few miss buffers.
class Ahead {
 public:
  DI_INLINE void Clear() {
    count_ = next_ = owed_ = 0;
    at_ = end_ = nullptr;
  }
  // At most 4 * kSpan times.
  DI_INLINE void Add(const void* begin, int64_t bytes) {
    const char* from = static_cast<const char*>(begin);
    runs_[count_++] = {from, from + bytes};
  }
  // `lines` more into the second level cache: eight at a time, which memory answers faster than one by one.
  DI_INLINE void Fetch(int lines) {
    owed_ += lines;
    if (owed_ < 8) return;
    const char* at = at_;
#pragma GCC unroll 1
    for (; owed_ > 0; --owed_, at += 64) {
      if (at >= end_) {
        if (next_ == count_) break;
        at = runs_[next_].begin;
        end_ = runs_[next_++].end;
      }
      __builtin_prefetch(at, 0, 2);
    }
    at_ = at;
  }

 private:
  struct Run {
    const char* begin;
    const char* end;
  };
  Run runs_[4 * kSpan];
  int count_, next_, owed_;
  const char* at_;
  const char* end_;
};

// The rows of one span, by position from its start. Beside the visible range, up to whole vectors, they are some
// visible row, and so masked but sound.
template <class T>
struct SpanRows {
  const T* k[kSpan];
  const T* v[kSpan];
  float k_scales[kSpan];  // of i8
  float v_scales[kSpan];
  Ahead ahead;  // the values, then the scales and keys of the next span
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

// begin < end, of the positions of the span at `start`; `after`: how many of the next span come after.
template <class T>
[[gnu::noinline]] void FindRows(const PagedAttentionArgs& args, const AttentionUnit& unit, int64_t start, int begin,
                                int end, int after, SpanRows<T>& rows) {
  const T* k_cache = static_cast<const T*>(args.k_cache);
  const T* v_cache = static_cast<const T*>(args.v_cache);
  const int64_t row_bytes = args.head_size * static_cast<int64_t>(sizeof(T));
  rows.ahead.Clear();
  ForEachRun(args, unit, start, begin, end, [&](int j, int64_t place, int run) {
    for (int i = 0; i < run; ++i) {
      rows.k[j + i] = k_cache + (place + i) * args.head_size;
      rows.v[j + i] = v_cache + (place + i) * args.head_size;
    }
    rows.ahead.Add(v_cache + place * args.head_size, run * row_bytes);
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
  ForEachRun(args, unit, start + kSpan, 0, after, [&](int, int64_t place, int run) {
    if (sizeof(T) == 1 && args.k_scales != nullptr) {
      rows.ahead.Add(args.k_scales + place, run * static_cast<int64_t>(sizeof(float)));
      rows.ahead.Add(args.v_scales + place, run * static_cast<int64_t>(sizeof(float)));
    }
    rows.ahead.Add(k_cache + place * args.head_size, run * row_bytes);
  });
}

}  // namespace
}  // namespace deepinfer
