// Compiled once per instruction set; see simd.h.
//
// A score is a dot product with lanes along the head: chunks of kLanes in order, then one tree over the lanes. The same
// order serves one decode row and a block of prefill rows, and needs no transposed copy of K. kLanes dot products at a
// time (R query rows times J positions) fill the registers and share the tree's shuffles.
#include "cpu/kernels/attention/attention_internal.h"
#include "cpu/kernels/simd.h"

namespace deepinfer {
namespace {

constexpr int kTile = kAttentionTile;
constexpr int kGroupRows = kLanes / 4;  // 16 accumulators on AVX-512, 8 on AVX2

// What a unit knows of its rows.
struct RowState {
  float max[kAttentionMaxRows];
  float sum[kAttentionMaxRows];
  float correction[kAttentionMaxRows];  // of this tile
  VisibleRange visible[kAttentionMaxRows];
  VisibleRange in_tile[kAttentionMaxRows];  // this tile's share, relative to its start
};

// Rows of K and V of one tile, as stored or as staged f32.
template <class T>
struct TileRows {
  const T* k[kTile];
  const T* v[kTile];
};

template <int R, int J, class T>
DI_INLINE void ScoreRows(const float* q, int64_t padded, const T* const* k, int begin, int end, float* scores) {
  static_assert(R * J == kLanes);
  for (int j = begin; j < end; j += J) {
    F acc[kLanes] = {};
    for (int64_t d = 0; d < padded; d += kLanes) {
      F key[J];
#pragma GCC unroll 16
      for (int jj = 0; jj < J; ++jj) key[jj] = Load(k[j + jj] + d);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const F query = Load(q + r * padded + d);
#pragma GCC unroll 16
        for (int jj = 0; jj < J; ++jj) acc[r * J + jj] = Fma(query, key[jj], acc[r * J + jj]);
      }
    }
    float sums[kLanes];
    Store(sums, SumEach(acc));
    for (int r = 0; r < R; ++r) memcpy(scores + r * kTile + j, sums + r * J, J * sizeof(float));
  }
}

// Turns a row's scores into weights against its new maximum; what is not visible gets 0, whatever stood there.
DI_INLINE void SoftmaxRow(const PagedAttentionArgs& args, float* scores, RowState& state, int64_t row) {
  const VisibleRange range = state.in_tile[row];
  I index;
  for (int i = 0; i < kLanes; ++i) index[i] = i;
  F max = Set1(-__builtin_inff());
  F values[kTile / kLanes];
  I masks[kTile / kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kTile / kLanes; ++i) {
    masks[i] = (index >= range.lo) & (index < range.hi);
    F s = Load(scores + i * kLanes) * args.scale;
    if (args.softcap > 0) s = args.softcap * Tanh(s / args.softcap);
    values[i] = masks[i] ? s : Set1(-__builtin_inff());
    max = Max(values[i], max);
    index += kLanes;
  }
  const float old_max = state.max[row];
  const float new_max = Larger(old_max, ReduceMax(max));
  F sum = {};
#pragma GCC unroll 16
  for (int i = 0; i < kTile / kLanes; ++i) {
    const F weight = (F)((I)Exp(values[i] - new_max) & masks[i]);
    Store(scores + i * kLanes, weight);
    sum += weight;
  }
  float correction = 0;
  if (old_max != -__builtin_inff()) {
    const F e = Exp(Set1(old_max - new_max));
    correction = e[0];
  }
  state.max[row] = new_max;
  state.correction[row] = correction;
  state.sum[row] = state.sum[row] * correction + ReduceAdd(sum);
}

// out[r] = out[r] * correction[r] + sum over visible j, ascending, of weight[r][j] * v_j, for NV vectors from `d` on.
// [all_lo, all_hi) is visible to every row; at the edges each row takes only its own, since a weight of 0 times a NaN
// would not be 0.
template <int R, int NV, class T>
DI_INLINE void AccumulateValues(float* out, int64_t padded, int64_t d, const T* const* v, const float* weights,
                                const float* correction, const VisibleRange* range, VisibleRange all,
                                VisibleRange any) {
  F acc[R * NV];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < NV; ++n) acc[r * NV + n] = Load(out + r * padded + d + n * kLanes) * correction[r];
  }
  for (int j = any.lo; j < any.hi; ++j) {
    F value[NV];
#pragma GCC unroll 4
    for (int n = 0; n < NV; ++n) value[n] = Load(v[j] + d + n * kLanes);
    if (j >= all.lo && j < all.hi) [[likely]] {
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const F weight = Set1(weights[r * kTile + j]);
#pragma GCC unroll 4
        for (int n = 0; n < NV; ++n) acc[r * NV + n] = Fma(weight, value[n], acc[r * NV + n]);
      }
    } else {
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        if (j < range[r].lo || j >= range[r].hi) continue;
        const F weight = Set1(weights[r * kTile + j]);
#pragma GCC unroll 4
        for (int n = 0; n < NV; ++n) acc[r * NV + n] = Fma(weight, value[n], acc[r * NV + n]);
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < NV; ++n) Store(out + r * padded + d + n * kLanes, acc[r * NV + n]);
  }
}

// One tile for R rows from `row` on. `real` of them exist; the others (queries of zero) only fill the registers.
template <int R, class T>
void TileForRows(const PagedAttentionArgs& args, const AttentionScratch& scratch, RowState& state, int64_t row,
                 int real, const TileRows<T>& tile, int64_t padded) {
  VisibleRange any = {kTile, 0}, all = {0, kTile};
  for (int r = 0; r < real; ++r) {
    const VisibleRange range = state.in_tile[row + r];
    all = {Larger(all.lo, range.lo), Smaller(all.hi, range.hi)};
    if (range.lo < range.hi) any = {Smaller(any.lo, range.lo), Larger(any.hi, range.hi)};
  }
  if (any.lo >= any.hi) return;
  for (int r = real; r < R; ++r) {
    state.in_tile[row + r] = any;
    state.correction[row + r] = 0;
  }
  constexpr int kPositions = kLanes / R;
  float* scores = scratch.scores + row * kTile;
  ScoreRows<R, kPositions>(scratch.q + row * padded, padded, tile.k, any.lo / kPositions * kPositions, any.hi, scores);
  for (int r = 0; r < real; ++r) {
    if (state.in_tile[row + r].lo < state.in_tile[row + r].hi) {
      SoftmaxRow(args, scores + r * kTile, state, row + r);
    } else {
      state.correction[row + r] = 1;
    }
  }
  float* out = scratch.out + row * padded;
  const float* correction = state.correction + row;
  const VisibleRange* range = state.in_tile + row;
  int64_t d = 0;
  for (; d + 4 * kLanes <= padded; d += 4 * kLanes) {
    AccumulateValues<R, 4>(out, padded, d, tile.v, scores, correction, range, all, any);
  }
  for (; d < padded; d += kLanes) {
    AccumulateValues<R, 1>(out, padded, d, tile.v, scores, correction, range, all, any);
  }
}

template <class T>
void TileForUnit(const PagedAttentionArgs& args, const AttentionScratch& scratch, RowState& state, int64_t rows,
                 const TileRows<T>& tile, int64_t padded) {
  int64_t row = 0;
  for (; row + kGroupRows <= rows; row += kGroupRows) {
    TileForRows<kGroupRows>(args, scratch, state, row, kGroupRows, tile, padded);
  }
  const int rest = static_cast<int>(rows - row);
  if (rest == 1) TileForRows<1>(args, scratch, state, row, 1, tile, padded);
  if constexpr (kGroupRows == 4) {
    if (rest == 2) TileForRows<2>(args, scratch, state, row, 2, tile, padded);
    if (rest == 3) TileForRows<4>(args, scratch, state, row, 3, tile, padded);
  }
}

template <class T>
DI_INLINE void ToF32(const T* in, float* out, int64_t count, int64_t padded) {
  for (int64_t i = 0; i < padded; i += kLanes) {
    Store(out + i, i + kLanes <= count ? Load(in + i) : LoadPart(in + i, count - i, 0.0f));
  }
}

// The cache row of a position of the unit's request and kv head.
DI_INLINE int64_t PlaceOf(const PagedAttentionArgs& args, const AttentionUnit& unit, int64_t position) {
  const int64_t entry = unit.table[position / args.block_size];
  const int64_t block = entry < 0 || entry >= args.num_blocks ? 0 : entry;
  return (block * args.kv_heads + unit.kv_head) * args.block_size + position % args.block_size;
}

// Loads the unit's queries and clears its sums. Rows are padded with zeros to whole vectors and whole row groups.
template <class Act>
VisibleRange BeginUnit(const PagedAttentionArgs& args, const AttentionUnit& unit, const AttentionScratch& scratch,
                       RowState& state, int64_t padded) {
  const int64_t group = args.query_heads / args.kv_heads;
  VisibleRange any = {INT32_MAX, 0};
  for (int64_t row = 0; row < unit.rows; ++row) {
    const int64_t token = unit.first_token + (unit.first_row + row) / group;
    const int64_t head = unit.kv_head * group + (unit.first_row + row) % group;
    const Act* q = static_cast<const Act*>(args.q) + token * args.q_stride + head * args.head_size;
    ToF32(q, scratch.q + row * padded, args.head_size, padded);
    const VisibleRange range = VisibleAt(args, args.positions[token]);
    if (range.lo < range.hi) any = {Smaller(any.lo, range.lo), Larger(any.hi, range.hi)};
    state.visible[row] = range;
    state.max[row] = -__builtin_inff();
    state.sum[row] = 0;
  }
  const int64_t filled = (unit.rows + kGroupRows - 1) / kGroupRows * kGroupRows;
  memset(scratch.q + unit.rows * padded, 0, (filled - unit.rows) * padded * sizeof(float));
  memset(scratch.out, 0, filled * padded * sizeof(float));
  return any;
}

template <class Act>
void EndUnit(const PagedAttentionArgs& args, const AttentionUnit& unit, const AttentionScratch& scratch,
             const RowState& state, int64_t padded) {
  const int64_t group = args.query_heads / args.kv_heads;
  for (int64_t row = 0; row < unit.rows; ++row) {
    const int64_t token = unit.first_token + (unit.first_row + row) / group;
    const int64_t head = unit.kv_head * group + (unit.first_row + row) % group;
    Act* out = static_cast<Act*>(args.out) + token * args.out_stride + head * args.head_size;
    const float* sums = scratch.out + row * padded;
    const float inverse = state.sum[row] == 0 ? 0.0f : 1.0f / state.sum[row];
    int64_t i = 0;
    for (; i + kLanes <= args.head_size; i += kLanes) Store(out + i, Load(sums + i) * inverse);
    if (i < args.head_size) StorePart(out + i, Load(sums + i) * inverse, args.head_size - i);
  }
}

template <class Act, class Kv>
void Unit(const PagedAttentionArgs& args, const AttentionUnit& unit, const AttentionScratch& scratch) {
  const int64_t padded = (args.head_size + kLanes - 1) / kLanes * kLanes;
  RowState state;
  const VisibleRange any = BeginUnit<Act>(args, unit, scratch, state, padded);
  const bool whole = padded == args.head_size;
  // Several row groups share one conversion of the tile; a single group converts as it reads. Same values either way.
  const bool stage = !whole || (sizeof(Kv) != sizeof(float) && unit.rows > kGroupRows);

  for (int64_t start = any.lo / kTile * kTile; start < any.hi; start += kTile) {
    const int begin = static_cast<int>(Larger<int64_t>(any.lo - start, 0));
    const int end = static_cast<int>(Smaller<int64_t>(any.hi - start, kTile));
    for (int64_t row = 0; row < unit.rows; ++row) {
      const int64_t lo = Larger<int64_t>(state.visible[row].lo - start, 0);
      const int64_t hi = Smaller<int64_t>(state.visible[row].hi - start, kTile);
      state.in_tile[row] = lo < hi ? VisibleRange{static_cast<int32_t>(lo), static_cast<int32_t>(hi)} : VisibleRange{};
    }
    TileRows<Kv> rows;
    for (int j = begin; j < end; ++j) {
      const int64_t place = PlaceOf(args, unit, start + j) * args.head_size;
      rows.k[j] = static_cast<const Kv*>(args.k_cache) + place;
      rows.v[j] = static_cast<const Kv*>(args.v_cache) + place;
    }
    // Scores are computed in steps of a few positions: those beside the range read a row of it and are then masked.
    for (int j = 0; j < kTile; ++j) {
      if (j < begin || j >= end) {
        rows.k[j] = rows.k[begin];
        rows.v[j] = rows.v[begin];
      }
    }
    if (!stage) {
      TileForUnit(args, scratch, state, unit.rows, rows, padded);
      continue;
    }
    TileRows<float> staged;
    for (int j = 0; j < kTile; ++j) {
      const int source = j < begin || j >= end ? begin : j;
      staged.k[j] = scratch.k_stage + source * padded;
      staged.v[j] = scratch.v_stage + source * padded;
    }
    for (int j = begin; j < end; ++j) {
      ToF32(rows.k[j], scratch.k_stage + j * padded, args.head_size, padded);
      ToF32(rows.v[j], scratch.v_stage + j * padded, args.head_size, padded);
    }
    TileForUnit(args, scratch, state, unit.rows, staged, padded);
  }
  EndUnit<Act>(args, unit, scratch, state, padded);
}

}  // namespace

#define DI_ATTENTION(Act, Kv, types) {DI_ISA_NAME("paged_attention_" types), Unit<Act, Kv>}

extern const AttentionTable DI_ISA_SYMBOL(kAttention);
const AttentionTable DI_ISA_SYMBOL(kAttention) = {{
    {DI_ATTENTION(float, float, "f32_f32"), DI_ATTENTION(float, Bf16, "f32_bf16"), DI_ATTENTION(float, F16, "f32_f16")},
    {DI_ATTENTION(Bf16, float, "bf16_f32"), DI_ATTENTION(Bf16, Bf16, "bf16_bf16"), DI_ATTENTION(Bf16, F16, "bf16_f16")},
}};

}  // namespace deepinfer
