// The unit of work of paged attention, and its scratch. Internal to attention/.
#pragma once

#include "cpu/kernels/attention/attention.h"

namespace deepinfer {

inline constexpr int kAttentionTile = 64;  // KV positions whose keys are transposed at a time; bits do not depend on it
inline constexpr int kAttentionSpan =
    256;  // KV positions with one softmax of their own; part of the definition of the bits
inline constexpr int kAttentionMaxRows = 64;    // query rows per unit; bits do not depend on it
inline constexpr int kAttentionSplitRows = 16;  // units of at most so many may be cut at spans; nor on that

// Rows [first_row, first_row + rows) of one request and kv head; row = token in the request * group + head in the
// group.
struct AttentionUnit {
  int64_t first_token = 0;  // of the request
  const int32_t* table = nullptr;
  int64_t kv_head = 0;
  int64_t first_row = 0;
  int64_t rows = 0;
};

// Positions [lo, hi) that position p attends to, within the block table.
struct VisibleRange {
  int32_t lo, hi;
};
inline __attribute__((always_inline)) VisibleRange VisibleAt(const PagedAttentionArgs& args, int32_t p) {
  const int64_t capacity = args.max_blocks * args.block_size;
  int64_t hi = int64_t{p} + 1;
  int64_t lo = args.window > 0 ? hi - args.window : 0;
  if (hi > capacity) hi = capacity;
  if (lo < 0) lo = 0;
  if (hi <= lo) return {0, 0};
  return {static_cast<int32_t>(lo), static_cast<int32_t>(hi)};
}

// Where things stand in a member's scratch, in floats; a row is head_size rounded up to 16 lanes.
struct AttentionScratch {
  float* q;       // [rows, padded]
  float* out;     // [rows, padded]
  float* keys;    // [padded, tile]: transposed
  float* values;  // [span, padded]
  float* scores;  // [rows, span]
};

// What a span alone gives one row, for a unit that several members work on: {maximum, sum, 14 unused, sum of values
// [padded]} for each (span, row), rows of a span together.
inline constexpr int64_t kPartialHeader = 16;

struct AttentionTable {
  struct Entry {
    const char* name;
    void (*whole)(const PagedAttentionArgs& args, const AttentionUnit& unit, const AttentionScratch& scratch);
    // Spans [first, last); `partials` are those of `first` on.
    void (*part)(const PagedAttentionArgs& args, const AttentionUnit& unit, const AttentionScratch& scratch,
                 int64_t first, int64_t last, float* partials);
    void (*merge)(const PagedAttentionArgs& args, const AttentionUnit& unit, const AttentionScratch& scratch,
                  int64_t spans, const float* partials);
  } by_type[2][5];  // [activations: f32, bf16][cache: f32, bf16, f16, f8e4m3fn, i8]
};

}  // namespace deepinfer
