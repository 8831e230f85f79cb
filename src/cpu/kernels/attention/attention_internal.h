// The unit of work of paged attention, and its scratch. Internal to attention/.
#pragma once

#include "cpu/kernels/attention/attention.h"

namespace deepinfer {

inline constexpr int kAttentionTile = 64;  // KV positions per online-softmax step; part of the definition of the bits
inline constexpr int kAttentionMaxRows = 64;  // query rows per unit; bits do not depend on it

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

// Where things stand in a member's scratch, in floats; the row length is head_size rounded up to 16 lanes.
struct AttentionScratch {
  float* q;        // [rows, padded]
  float* out;      // [rows, padded]
  float* k_stage;  // [tile, padded]
  float* v_stage;  // [tile, padded]
  float* scores;   // [rows, tile]
};

using AttentionUnitFn = void (*)(const PagedAttentionArgs& args, const AttentionUnit& unit,
                                 const AttentionScratch& scratch);

struct AttentionTable {
  struct Entry {
    const char* name;
    AttentionUnitFn unit;
  } by_type[2][3];  // [activations: f32, bf16][cache: f32, bf16, f16]
};

}  // namespace deepinfer
