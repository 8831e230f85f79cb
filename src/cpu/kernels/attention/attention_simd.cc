// Compiled once per instruction set; see simd.h. The order of sums is that of attention.h.
#include "cpu/kernels/attention/attention_scores.h"
#include "cpu/kernels/attention/attention_stage.h"

namespace deepinfer {
namespace {

constexpr int kWide = 16 / kLanes;  // vectors of the 16 lanes in which weights are added up
constexpr float kInfinity = __builtin_inff();

// What a unit knows of its rows.
struct RowState {
  float max[kAttentionMaxRows];
  float sum[kAttentionMaxRows];
  float keep[kAttentionMaxRows];  // factor of what was there, when a span is added
  float add[kAttentionMaxRows];   // and of the span
  VisibleRange visible[kAttentionMaxRows];
  VisibleRange in_span[kAttentionMaxRows];  // relative to the span's start; empty: {0, 0}
};

// Puts a span with its maximum and sum beside what the row has.
DI_INLINE void Fold(RowState& state, int64_t row, float max, float sum) {
  const float old = state.max[row];
  const float top = Larger(old, max);
  F x = Set1(max - top);
  x[0] = old - top;
  const F e = Exp(x);
  state.keep[row] = old == -kInfinity ? 0.0f : e[0];
  state.add[row] = e[1];
  state.max[row] = top;
  state.sum[row] = state.sum[row] * state.keep[row] + sum * e[1];
}

DI_INLINE float SumOf16(const F* sums) {
  float lanes[16];
  for (int i = 0; i < kWide; ++i) Store(lanes + i * kLanes, sums[i]);
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

// Turns a row's scores into weights against the span's maximum; what is not visible gets 0, whatever stood there. The
// scales of i8 go into scores and weights instead of every element, as does that of LoadValue.
template <class Kv>
[[gnu::noinline]] void SoftmaxRow(const PagedAttentionArgs& args, float* scores, const float* k_scales,
                                  const float* v_scales, RowState& state, int64_t row) {
  constexpr bool scaled = __is_same(Kv, int8_t);
  const VisibleRange range = state.in_span[row];
  const float scale = args.scale * args.k_scale;
  const int first = range.lo / kLanes, last = (range.hi + kLanes - 1) / kLanes;
  I index;
  for (int i = 0; i < kLanes; ++i) index[i] = first * kLanes + i;
  F max = Set1(-kInfinity);
  for (int i = first; i < last; ++i, index += kLanes) {
    F s = Load(scores + i * kLanes);
    if constexpr (scaled) s *= Load(k_scales + i * kLanes);
    s *= scale;
    if (args.softcap > 0) s = args.softcap * Tanh(s / args.softcap);
    s = ((index >= range.lo) & (index < range.hi)) ? s : Set1(-kInfinity);
    Store(scores + i * kLanes, s);
    max = Max(s, max);
  }
  const float top = ReduceMax(max);
  for (int i = 0; i < kLanes; ++i) index[i] = first * kLanes + i;
  F sums[kWide] = {};
  for (int i = first; i < last; ++i, index += kLanes) {
    const I visible = (index >= range.lo) & (index < range.hi);
    const F weight = (F)((I)Exp(Load(scores + i * kLanes) - top) & visible);
    sums[i % kWide] += weight;
    if constexpr (scaled) {
      Store(scores + i * kLanes, weight * Load(v_scales + i * kLanes));
    } else {
      Store(scores + i * kLanes, kValueScale<Kv> == 1 ? weight : weight * kValueScale<Kv>);
    }
  }
  Fold(state, row, top, SumOf16(sums));
}

// Positions that all rows of a group see, and those that any does.
struct GroupRange {
  VisibleRange all, any;
};
template <int R>
DI_INLINE GroupRange RangeOf(const VisibleRange* range) {
  GroupRange g = {{0, kSpan}, {kSpan, 0}};
  for (int r = 0; r < R; ++r) {
    g.all = {Larger(g.all.lo, range[r].lo), Smaller(g.all.hi, range[r].hi)};
    if (range[r].lo < range[r].hi) g.any = {Smaller(g.any.lo, range[r].lo), Larger(g.any.hi, range[r].hi)};
  }
  if (g.all.lo >= g.all.hi) g.all = {g.any.hi, g.any.hi};
  return g;
}

// acc[r] = sum over visible j, ascending, of weight[r][j] * v_j, then out[r] = out[r] * keep[r] + acc[r] * add[r], for
// NV vectors from `d` on. At the edges each row takes only its own, since a weight of 0 times a NaN would not be 0.
template <int R, int NV, class T>
DI_INLINE void AddValues(float* out, int64_t padded, int64_t d, const T* const* v, const float* weights,
                         const RowState& state, int64_t row, const GroupRange& g, Ahead* ahead) {
  F acc[R * NV] = {};
  const VisibleRange* range = state.in_span + row;
  const auto edge = [&](int begin, int end) {
    for (int j = begin; j < end; ++j) {
      for (int r = 0; r < R; ++r) {
        if (j < range[r].lo || j >= range[r].hi) continue;
        const F weight = Splat(weights[r * kSpan + j]);
        for (int n = 0; n < NV; ++n) acc[r * NV + n] = Fma(weight, LoadValue(v[j] + d + n * kLanes), acc[r * NV + n]);
      }
    }
  };
  edge(g.any.lo, g.all.lo);
  const int lines = static_cast<int>(padded * static_cast<int64_t>(sizeof(T)) / 64);
  for (int j = g.all.lo; j < g.all.hi; ++j) {
    if (ahead != nullptr) ahead->Fetch(lines);
    F value[NV];
#pragma GCC unroll 4
    for (int n = 0; n < NV; ++n) value[n] = LoadValue(v[j] + d + n * kLanes);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const F weight = Splat(weights[r * kSpan + j]);
#pragma GCC unroll 4
      for (int n = 0; n < NV; ++n) acc[r * NV + n] = Fma(weight, value[n], acc[r * NV + n]);
    }
  }
  edge(g.all.hi, g.any.hi);
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    if (range[r].lo >= range[r].hi) continue;
#pragma GCC unroll 4
    for (int n = 0; n < NV; ++n) {
      float* at = out + r * padded + d + n * kLanes;
      Store(at, Fma(acc[r * NV + n], Set1(state.add[row + r]), Load(at) * state.keep[row + r]));
    }
  }
}

template <int R, class T>
[[gnu::noinline]] void AddRows(float* out, int64_t padded, const T* const* v, const float* weights,
                               const RowState& state, int64_t row, Ahead* ahead) {
  constexpr int kVectors = kLanes == 16 || R <= 2 ? 4 : 2;
  const GroupRange g = RangeOf<R>(state.in_span + row);
  if (g.any.lo >= g.any.hi) return;
  int64_t d = 0;
  for (; d + kVectors * kLanes <= padded; d += kVectors * kLanes) {
    AddValues<R, kVectors>(out, padded, d, v, weights, state, row, g, d == 0 ? ahead : nullptr);
  }
  for (; d < padded; d += kLanes) {
    AddValues<R, 1>(out, padded, d, v, weights, state, row, g, d == 0 ? ahead : nullptr);
  }
}

template <class T>
DI_INLINE void AddSpan(const AttentionScratch& scratch, const RowState& state, int64_t rows, int64_t padded,
                       const T* const* v, Ahead* ahead) {
  int64_t row = 0;
  for (; row + kGroupRows <= rows; row += kGroupRows) {
    AddRows<kGroupRows>(scratch.out + row * padded, padded, v, scratch.scores + row * kSpan, state, row,
                        row == 0 ? ahead : nullptr);
  }
  float* out = scratch.out + row * padded;
  const float* weights = scratch.scores + row * kSpan;
  Ahead* first = row == 0 ? ahead : nullptr;
  if (rows - row == 1) AddRows<1>(out, padded, v, weights, state, row, first);
  if (rows - row == 2) AddRows<2>(out, padded, v, weights, state, row, first);
  if (rows - row == 3) AddRows<3>(out, padded, v, weights, state, row, first);
}

template <class Act, class Kv>
struct Types {
  // Every value of the cache and of the query is a bf16: products go as VDPBF16PS has them.
  static constexpr bool kAllBf16 = sizeof(Act) == 2 && (__is_same(Kv, Bf16) || sizeof(Kv) == 1);
#if defined(__AVX512BF16__)
  static constexpr bool kPairs = kAllBf16;
#else
  static constexpr bool kPairs = false;
#endif
};

struct Rows {
  int64_t token, head;
};
DI_INLINE Rows RowAt(const PagedAttentionArgs& args, const AttentionUnit& unit, int64_t row) {
  const int64_t group = args.query_heads / args.kv_heads;
  return {unit.first_token + (unit.first_row + row) / group, unit.kv_head * group + (unit.first_row + row) % group};
}

// Forgets what the rows have, but for the sinks.
DI_INLINE void ClearRows(const PagedAttentionArgs& args, const AttentionUnit& unit, const AttentionScratch& scratch,
                         RowState& state, int64_t padded, bool sinks) {
  for (int64_t row = 0; row < unit.rows; ++row) {
    const float sink = sinks && args.sinks != nullptr ? args.sinks[RowAt(args, unit, row).head] : -kInfinity;
    state.max[row] = sink;
    state.sum[row] = sink == -kInfinity ? 0.0f : 1.0f;
  }
  memset(scratch.out, 0, unit.rows * padded * sizeof(float));
}

// Loads the unit's queries in the form that its keys will have. Returns what any of its rows sees.
template <class Act, class Kv>
VisibleRange BeginUnit(const PagedAttentionArgs& args, const AttentionUnit& unit, const AttentionScratch& scratch,
                       RowState& state, int64_t padded) {
  const int64_t head = args.head_size;
  VisibleRange any = {INT32_MAX, 0};
  for (int64_t row = 0; row < unit.rows; ++row) {
    const Rows at = RowAt(args, unit, row);
    const Act* q = static_cast<const Act*>(args.q) + at.token * args.q_stride + at.head * head;
    float* to = scratch.q + row * padded;
    if constexpr (Types<Act, Kv>::kPairs) {
      memset(to, 0, padded * sizeof(float));
      memcpy(to, q, head * sizeof(Act));
    } else {
      for (int64_t i = 0; i < padded; i += kLanes) Store(to + i, LoadUpTo(q, i, head));
      for (int64_t i = 0; Types<Act, Kv>::kAllBf16 && i < head; i += 2) {
        const float even = to[i];
        to[i] = to[i + 1];
        to[i + 1] = even;
      }
    }
    const VisibleRange range = VisibleAt(args, args.positions[at.token]);
    if (range.lo < range.hi) any = {Smaller(any.lo, range.lo), Larger(any.hi, range.hi)};
    state.visible[row] = range;
  }
  return any.lo < any.hi ? any : VisibleRange{0, 0};
}

template <class Act>
void EndUnit(const PagedAttentionArgs& args, const AttentionUnit& unit, const AttentionScratch& scratch,
             const RowState& state, int64_t padded) {
  for (int64_t row = 0; row < unit.rows; ++row) {
    const Rows at = RowAt(args, unit, row);
    Act* out = static_cast<Act*>(args.out) + at.token * args.out_stride + at.head * args.head_size;
    const float* sums = scratch.out + row * padded;
    const float inverse = state.sum[row] == 0 ? 0.0f : args.v_scale / state.sum[row];
    int64_t i = 0;
    for (; i + kLanes <= args.head_size; i += kLanes) Store(out + i, Load(sums + i) * inverse);
    if (i < args.head_size) StorePart(out + i, Load(sums + i) * inverse, args.head_size - i);
  }
}

// Keys of the span, tile by tile, and the scores of all rows.
template <class Act, class Kv>
void ScoreSpan(const PagedAttentionArgs& args, const AttentionUnit& unit, const AttentionScratch& scratch,
               SpanRows<Kv>& rows, int begin, int end, bool cold, int64_t padded) {
  constexpr bool kSwapped = Types<Act, Kv>::kAllBf16;
  const int64_t head = args.head_size;
  for (int start = begin / kTile * kTile; start < end; start += kTile) {
    const int first = Larger(begin - start, 0) / kLanes * kLanes;
    const int last = (Smaller(end - start, kTile) + kLanes - 1) / kLanes * kLanes;
    const Kv* const* k = rows.k + start;
    const auto score = [&]<class Mode>(Mode, int64_t length) {
      ScoreTile<Mode>(scratch, unit.rows, padded, length, first, last, scratch.scores + start, &rows.ahead);
    };
#if defined(__AVX512BF16__)
    if constexpr (Types<Act, Kv>::kPairs) {
      score(Pairs(), StagePairs(k, first, last, head, cold, rows.ahead, scratch.keys));
      continue;
    }
#endif
#if defined(__AVX512F__)
    if constexpr (__is_same(Kv, F16)) {
      if (unit.rows <= 2 * kGroupRows) {
        score(Halves(), StageHalves(k, first, last, head, cold, rows.ahead, scratch.keys));
        continue;
      }
    }
#endif
    score(Plain(), StageKeys(k, first, last, head, kSwapped, cold, rows.ahead, scratch.keys));
  }
}

template <class Act, class Kv>
void RunSpan(const PagedAttentionArgs& args, const AttentionUnit& unit, const AttentionScratch& scratch,
             RowState& state, VisibleRange any, int64_t start, int64_t padded) {
  const int begin = static_cast<int>(Larger<int64_t>(any.lo - start, 0));
  const int end = static_cast<int>(Smaller<int64_t>(any.hi - start, kSpan));
  for (int64_t row = 0; row < unit.rows; ++row) {
    const int64_t lo = Larger<int64_t>(state.visible[row].lo - start, 0);
    const int64_t hi = Smaller<int64_t>(state.visible[row].hi - start, kSpan);
    state.in_span[row] = lo < hi ? VisibleRange{static_cast<int32_t>(lo), static_cast<int32_t>(hi)} : VisibleRange{};
  }
  SpanRows<Kv> rows;
  const int after = static_cast<int>(Larger<int64_t>(Smaller<int64_t>(kSpan, any.hi - start - kSpan), 0));
  FindRows(args, unit, start, begin, end, after, rows);
  ScoreSpan<Act>(args, unit, scratch, rows, begin, end, /*cold=*/start <= any.lo, padded);
  for (int64_t row = 0; row < unit.rows; ++row) {
    if (state.in_span[row].lo >= state.in_span[row].hi) continue;
    SoftmaxRow<Kv>(args, scratch.scores + row * kSpan, rows.k_scales, rows.v_scales, state, row);
  }
  // Many rows share one conversion of the values; few convert as they read. Same values either way. Rows that are
  // shorter than `padded` are not read in place: past the last one nothing may be there.
  if (args.head_size != padded || (sizeof(Kv) != sizeof(float) && unit.rows > 2 * kGroupRows)) {
    StageValues(rows, begin, end, args.head_size, padded, scratch.values);
    const float* staged[kSpan];
    for (int j = begin; j < end; ++j) staged[j] = scratch.values + j * padded;
    return AddSpan(scratch, state, unit.rows, padded, staged, nullptr);
  }
  AddSpan(scratch, state, unit.rows, padded, rows.v, &rows.ahead);
}

DI_INLINE int64_t PaddedHead(const PagedAttentionArgs& args) {
  return (args.head_size + 15) / 16 * 16;
}

template <class Act, class Kv>
void Whole(const PagedAttentionArgs& args, const AttentionUnit& unit, const AttentionScratch& scratch) {
  const int64_t padded = PaddedHead(args);
  RowState state;
  const VisibleRange any = BeginUnit<Act, Kv>(args, unit, scratch, state, padded);
  ClearRows(args, unit, scratch, state, padded, /*sinks=*/true);
  for (int64_t start = any.lo / kSpan * kSpan; start < any.hi; start += kSpan) {
    RunSpan<Act, Kv>(args, unit, scratch, state, any, start, padded);
  }
  EndUnit<Act>(args, unit, scratch, state, padded);
}

template <class Act, class Kv>
void Part(const PagedAttentionArgs& args, const AttentionUnit& unit, const AttentionScratch& scratch, int64_t first,
          int64_t last, float* partials) {
  const int64_t padded = PaddedHead(args);
  RowState state;
  const VisibleRange any = BeginUnit<Act, Kv>(args, unit, scratch, state, padded);
  for (int64_t span = first; span < last; ++span) {
    ClearRows(args, unit, scratch, state, padded, /*sinks=*/false);
    RunSpan<Act, Kv>(args, unit, scratch, state, any, span * kSpan, padded);
    for (int64_t row = 0; row < unit.rows; ++row, partials += kPartialHeader + padded) {
      partials[0] = state.max[row];
      partials[1] = state.sum[row];
      memcpy(partials + kPartialHeader, scratch.out + row * padded, padded * sizeof(float));
    }
  }
}

template <class Act>
void Merge(const PagedAttentionArgs& args, const AttentionUnit& unit, const AttentionScratch& scratch, int64_t spans,
           const float* partials) {
  const int64_t padded = PaddedHead(args);
  RowState state;
  ClearRows(args, unit, scratch, state, padded, /*sinks=*/true);
  for (int64_t span = 0; span < spans; ++span) {
    for (int64_t row = 0; row < unit.rows; ++row, partials += kPartialHeader + padded) {
      if (partials[0] == -kInfinity && partials[1] == 0) continue;  // saw nothing of the span
      Fold(state, row, partials[0], partials[1]);
      for (int64_t d = 0; d < padded; d += kLanes) {
        float* at = scratch.out + row * padded + d;
        Store(at, Fma(Load(partials + kPartialHeader + d), Set1(state.add[row]), Load(at) * state.keep[row]));
      }
    }
  }
  EndUnit<Act>(args, unit, scratch, state, padded);
}

}  // namespace

#define DI_ATTENTION(Act, Kv, types) {DI_ISA_NAME("paged_attention_" types), Whole<Act, Kv>, Part<Act, Kv>, Merge<Act>}

extern const AttentionTable DI_ISA_SYMBOL(kAttention);
#if defined(__AVX512BF16__)
// Only what differs from plain AVX-512.
const AttentionTable DI_ISA_SYMBOL(kAttention) = {{{},
                                                   {{},
                                                    DI_ATTENTION(Bf16, Bf16, "bf16_bf16"),
                                                    {},
                                                    DI_ATTENTION(Bf16, F8, "bf16_f8"),
                                                    DI_ATTENTION(Bf16, int8_t, "bf16_i8")}}};
#else
const AttentionTable DI_ISA_SYMBOL(kAttention) = {{
    {DI_ATTENTION(float, float, "f32_f32"), DI_ATTENTION(float, Bf16, "f32_bf16"), DI_ATTENTION(float, F16, "f32_f16"),
     DI_ATTENTION(float, F8, "f32_f8"), DI_ATTENTION(float, int8_t, "f32_i8")},
    {DI_ATTENTION(Bf16, float, "bf16_f32"), DI_ATTENTION(Bf16, Bf16, "bf16_bf16"), DI_ATTENTION(Bf16, F16, "bf16_f16"),
     DI_ATTENTION(Bf16, F8, "bf16_f8"), DI_ATTENTION(Bf16, int8_t, "bf16_i8")},
}};
#endif

}  // namespace deepinfer
