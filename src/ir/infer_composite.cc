// Composites: operand and result types. Shapes in comments: T tokens, R rows, Q requests.
#include "ir/infer_internal.h"
#include "ir/sampling.h"

namespace deepinfer::ir::internal {
namespace {

Status Expect(const InferContext& c, size_t operand, const Type& expected) {
  const Type& got = c.operands[operand];
  if (got.encoding || got.dtype != expected.dtype || !SameShape(got, expected)) {
    return TypeError(c, "operand {} must be {}, got {}", operand, ToString(expected), ToString(got));
  }
  return {};
}

Status ExpectRank(const InferContext& c, size_t operand, int rank) {
  if (c.operands[operand].rank() != rank) {
    return TypeError(c, "operand {} must have rank {}, got {}", operand, rank, ToString(c.operands[operand]));
  }
  return {};
}

Status ExpectFloat(const InferContext& c, size_t operand) {
  if (c.operands[operand].encoding || !IsFloat(c.operands[operand].dtype)) {
    return TypeError(c, "operand {} must be a plain float, got {}", operand, ToString(c.operands[operand]));
  }
  return {};
}

// The attribute 'dtype', or the fallback.
Result<DType> ResultDType(const InferContext& c, DType fallback) {
  const std::string name = c.node.Str("dtype");
  if (name.empty()) return fallback;
  const auto dtype = ParseDType(name);
  if (!dtype || !IsFloat(*dtype)) return TypeError(c, "dtype '{}' is not a float type", name);
  return *dtype;
}

// embedding(table [V,H], ids i32[T]) {dtype, scale} -> [T,H]
Result<Types> InferEmbedding(const InferContext& c) {
  DI_RETURN_IF_ERROR(ExpectRank(c, 0, 2));
  DI_RETURN_IF_ERROR(RequireIndices(c, 1, 1));
  DI_ASSIGN_OR_RETURN(const DType dtype, ResultDType(c, DType::kF32));
  return Types{Type(dtype, {c.operands[1].dims[0], c.operands[0].dims[1]})};
}

// rms_norm(x [..., D], weight [D]) {eps, offset}; add_rms_norm(x, residual, weight) -> (x + residual, its norm)
Result<Types> InferNorm(const InferContext& c) {
  const bool add = c.node.op == Op::kAddRmsNorm;
  DI_RETURN_IF_ERROR(ExpectFloat(c, 0));
  const Type& x = c.operands[0];
  if (x.rank() < 1) return TypeError(c, "cannot normalise a scalar");
  const size_t weight = add ? 2 : 1;
  DI_RETURN_IF_ERROR(ExpectFloat(c, weight));
  DI_RETURN_IF_ERROR(Expect(c, weight, Type(c.operands[weight].dtype, {x.dims.back()})));
  if (!add) return Types{x};
  DI_RETURN_IF_ERROR(Expect(c, 1, x));
  DI_ASSIGN_OR_RETURN(Type sum, MergeShapes(c, x, c.operands[1]));
  return Types{sum, sum};
}

// rope_table(positions i32[T], inv_freq f32[h]) {mscale} -> cos, sin f32[T,h]
Result<Types> InferRopeTable(const InferContext& c) {
  DI_RETURN_IF_ERROR(RequireIndices(c, 0, 1));
  DI_RETURN_IF_ERROR(ExpectRank(c, 1, 1));
  DI_RETURN_IF_ERROR(Expect(c, 1, Type(DType::kF32, {c.operands[1].dims[0]})));
  const Type table(DType::kF32, {c.operands[0].dims[0], c.operands[1].dims[0]});
  return Types{table, table};
}

// rope(x [T,heads,D], cos f32[T,h], sin f32[T,h]) {interleaved}: rotates the first 2h of D
Result<Types> InferRope(const InferContext& c) {
  DI_RETURN_IF_ERROR(ExpectFloat(c, 0));
  DI_RETURN_IF_ERROR(ExpectRank(c, 0, 3));
  DI_RETURN_IF_ERROR(ExpectRank(c, 1, 2));
  const Type& x = c.operands[0];
  const Type table(DType::kF32, {x.dims[0], c.operands[1].dims[1]});
  DI_RETURN_IF_ERROR(Expect(c, 1, table));
  DI_RETURN_IF_ERROR(Expect(c, 2, table));
  if (2 * table.dims[1].size > x.dims[2].size) {
    return TypeError(c, "{} rotated pairs do not fit in {}", table.dims[1].size, ToString(x));
  }
  return Types{x};
}

Result<Type> LinearResult(const InferContext& c, size_t weight) {
  const Type& x = c.operands[0];
  DI_RETURN_IF_ERROR(ExpectRank(c, weight, 2));
  const Type& w = c.operands[weight];
  if (w.dims[1].size != x.dims[1].size) {
    return TypeError(c, "{} has {} columns, the input {}", ToString(w), w.dims[1].size, ToString(x));
  }
  DI_ASSIGN_OR_RETURN(const DType dtype, ResultDType(c, x.dtype));
  return Type(dtype, {x.dims[0], w.dims[0]});
}

Status CheckBias(const InferContext& c, size_t bias, const Type& result) {
  DI_RETURN_IF_ERROR(ExpectFloat(c, bias));
  return Expect(c, bias, Type(c.operands[bias].dtype, {result.dims[1]}));
}

// linear(x [T,K], weight [N,K], bias [N]?) {dtype} -> [T,N]
// multi_linear(x, weight_1..weight_n, bias_1..bias_n if bias = 1) {weights = n, bias, dtype} -> n results
Result<Types> InferLinear(const InferContext& c) {
  DI_RETURN_IF_ERROR(ExpectFloat(c, 0));
  DI_RETURN_IF_ERROR(ExpectRank(c, 0, 2));
  const bool multi = c.node.op == Op::kMultiLinear;
  const size_t weights = multi ? static_cast<size_t>(c.node.Int("weights")) : 1;
  const bool bias = multi ? c.node.Int("bias") != 0 : c.operands.size() == 3;
  if (weights >= c.operands.size() || c.operands.size() != 1 + weights * (bias ? 2 : 1)) {
    return TypeError(c, "{} operands for {} weights", c.operands.size(), static_cast<int64_t>(weights));
  }
  Types results;
  for (size_t i = 0; i < weights; ++i) {
    DI_ASSIGN_OR_RETURN(Type type, LinearResult(c, 1 + i));
    if (bias) DI_RETURN_IF_ERROR(CheckBias(c, 1 + weights + i, type));
    results.push_back(std::move(type));
  }
  return results;
}

Status CheckActivation(const InferContext& c) {
  const std::string activation = c.node.Str("activation");
  if (activation == "silu" || activation == "gelu_tanh") return {};
  return TypeError(c, "activation must be silu or gelu_tanh, got '{}'", activation);
}

Result<Types> InferGlu(const InferContext& c) {
  DI_RETURN_IF_ERROR(ExpectFloat(c, 0));
  DI_RETURN_IF_ERROR(Expect(c, 1, c.operands[0]));
  DI_RETURN_IF_ERROR(CheckActivation(c));
  DI_ASSIGN_OR_RETURN(Type type, MergeShapes(c, c.operands[0], c.operands[1]));
  return Types{type};
}

// gated_linear(x [T,K], gate [N,K], up [N,K], biases [N] of both?) {activation, dtype} -> [T,N]
Result<Types> InferGatedLinear(const InferContext& c) {
  DI_RETURN_IF_ERROR(ExpectFloat(c, 0));
  DI_RETURN_IF_ERROR(ExpectRank(c, 0, 2));
  DI_RETURN_IF_ERROR(CheckActivation(c));
  if (c.operands.size() == 4) return TypeError(c, "needs both biases or none");
  DI_ASSIGN_OR_RETURN(const Type type, LinearResult(c, 1));
  DI_ASSIGN_OR_RETURN(const Type up, LinearResult(c, 2));
  if (type != up) return TypeError(c, "gate and up give {} and {}", ToString(type), ToString(up));
  for (size_t bias = 3; bias < c.operands.size(); ++bias) DI_RETURN_IF_ERROR(CheckBias(c, bias, type));
  return Types{type};
}

// moe(x [T,H], logits [T,E], gate [E*F,H], up [E*F,H], down [E*H,F]) {top_k, normalise, activation} -> [T,H]
Result<Types> InferMoe(const InferContext& c) {
  for (const size_t i : {size_t{0}, size_t{1}}) {
    DI_RETURN_IF_ERROR(ExpectFloat(c, i));
    DI_RETURN_IF_ERROR(ExpectRank(c, i, 2));
  }
  for (size_t i = 2; i < 5; ++i) DI_RETURN_IF_ERROR(ExpectRank(c, i, 2));
  DI_RETURN_IF_ERROR(CheckActivation(c));
  const Type& x = c.operands[0];
  const Type& logits = c.operands[1];
  const int64_t experts = logits.dims[1].size, width = x.dims[1].size, inner = c.operands[4].dims[1].size;
  if (logits.dims[0].size != x.dims[0].size) {
    return TypeError(c, "{} are not one row for each of {}", ToString(logits), ToString(x));
  }
  const auto fits = [&](size_t operand, int64_t rows, int64_t columns) {
    const Type& type = c.operands[operand];
    return rows > 0 && type.dims[0].size % rows == 0 && type.dims[0].size / rows == experts &&
           type.dims[1].size == columns;
  };
  if (!fits(2, inner, width) || !fits(3, inner, width) || !fits(4, width, inner)) {
    return TypeError(c, "the weights {}, {}, {} do not hold {} experts for {}", ToString(c.operands[2]),
                     ToString(c.operands[3]), ToString(c.operands[4]), experts, ToString(x));
  }
  const int64_t k = c.node.Int("top_k");
  if (k < 1 || k > experts) return TypeError(c, "top_k = {} of {} experts", k, experts);
  return Types{x};
}

// paged_slot_indices(slots i32[T]) {block_size, blocks} -> block, offset i32[T]
Result<Types> InferSlotIndices(const InferContext& c) {
  DI_RETURN_IF_ERROR(RequireIndices(c, 0, 1));
  const int64_t size = c.node.Int("block_size");
  const int64_t blocks = c.node.Int("blocks");
  if (size < 1 || blocks < 1) return TypeError(c, "needs block_size and blocks >= 1");
  if (size > INT32_MAX / blocks) return TypeError(c, "{} blocks of {} slots do not fit in i32", blocks, size);
  return Types{c.operands[0], c.operands[0]};
}

// rope_kv_write(q [T,Hq,D], k [T,H,D], v [T,H,D], cos f32[T,h], sin f32[T,h], block i32[T], offset i32[T],
// k_cache [N,H,B,D], v_cache [N,H,B,D], k_scales f32[N,H,B,1], v_scales f32[N,H,B,1] if the caches are i8, norm weights
// [D] of q and k?) {interleaved, eps, offset} -> turned q, both caches, and both scales
Result<Types> InferRopeKvWrite(const InferContext& c) {
  const bool scaled = c.operands[7].dtype == DType::kI8;
  const size_t norms = scaled ? 11 : 9;
  if (c.operands.size() < norms) return TypeError(c, "a cache of i8 needs the scales of K and of V");
  if (c.operands.size() != norms && c.operands.size() != norms + 2) {
    return TypeError(c, "needs the norms of both q and k or none");
  }
  for (const size_t i : {size_t{0}, size_t{1}}) DI_RETURN_IF_ERROR(ExpectFloat(c, i));
  DI_RETURN_IF_ERROR(ExpectRank(c, 0, 3));
  DI_RETURN_IF_ERROR(ExpectRank(c, 3, 2));
  DI_RETURN_IF_ERROR(ExpectRank(c, 7, 4));
  const Type& q = c.operands[0];
  const Type& cache = c.operands[7];
  const Dim tokens = q.dims[0], width = q.dims[2];
  const Type rows(q.dtype, {tokens, cache.dims[1], width});
  DI_RETURN_IF_ERROR(Expect(c, 1, rows));
  DI_RETURN_IF_ERROR(Expect(c, 2, rows));
  const Type table(DType::kF32, {tokens, c.operands[3].dims[1]});
  DI_RETURN_IF_ERROR(Expect(c, 3, table));
  DI_RETURN_IF_ERROR(Expect(c, 4, table));
  DI_RETURN_IF_ERROR(Expect(c, 5, Type(DType::kI32, {tokens})));
  DI_RETURN_IF_ERROR(Expect(c, 6, Type(DType::kI32, {tokens})));
  if (2 * table.dims[1].size > width.size || cache.dims[3].size != width.size) {
    return TypeError(c, "{} rotated pairs and the cache {} do not fit {}", table.dims[1].size, ToString(cache),
                     ToString(q));
  }
  DI_RETURN_IF_ERROR(Expect(c, 8, cache));
  for (size_t i = norms; i < c.operands.size(); ++i) {
    DI_RETURN_IF_ERROR(ExpectFloat(c, i));
    DI_RETURN_IF_ERROR(Expect(c, i, Type(c.operands[i].dtype, {width})));
  }
  if (!scaled) return Types{q, cache, cache};
  Type scales = cache.WithDType(DType::kF32);
  scales.dims.back() = Dim(1);
  for (const size_t i : {size_t{9}, size_t{10}}) DI_RETURN_IF_ERROR(Expect(c, i, scales));
  return Types{q, cache, cache, scales, scales};
}

// quantise_rows(x [..., D]) {dtype: f8e4m3fn, scale} -> f8e4m3fn [..., D]: x / scale, saturated
// quantise_rows(x [..., D]) {dtype: i8} -> i8 [..., D], scales f32 [..., 1]
Result<Types> InferQuantiseRows(const InferContext& c) {
  DI_RETURN_IF_ERROR(ExpectFloat(c, 0));
  const Type& x = c.operands[0];
  const std::string dtype = c.node.Str("dtype");
  if (x.rank() < 2 || x.dims.back().size < 1)
    return TypeError(c, "needs rows of at least one element: {}", ToString(x));
  if (dtype == ToString(DType::kF8E4M3)) {
    const double scale = c.node.Float("scale", 1.0);
    if (!(scale > 0)) return TypeError(c, "scale must be positive, got {}", scale);
    return Types{x.WithDType(DType::kF8E4M3)};
  }
  if (dtype != ToString(DType::kI8)) return TypeError(c, "dtype must be f8e4m3fn or i8, got '{}'", dtype);
  Type scales = x.WithDType(DType::kF32);
  scales.dims.back() = Dim(1);
  return Types{x.WithDType(DType::kI8), scales};
}

// What a cache of i8 has beside it, and the sinks, follow each other after the six operands that are always there.
Status CheckAttentionExtras(const InferContext& c) {
  const Type& cache = c.operands[1];
  size_t next = 6;
  if (cache.dtype == DType::kI8) {
    if (c.operands.size() < 8) return TypeError(c, "a cache of i8 needs the scales of K and of V");
    Type scales = cache.WithDType(DType::kF32);
    scales.dims.back() = Dim(1);
    for (; next < 8; ++next) DI_RETURN_IF_ERROR(Expect(c, next, scales));
  }
  if (c.operands.size() > next + 1)
    return TypeError(c, "{} operands for a cache {}", c.operands.size(), ToString(cache));
  if (c.operands.size() == next) return {};
  return Expect(c, next, Type(DType::kF32, {c.operands[0].dims[1]}));
}

// paged_attention(q [T,Hq,D], k [N,H,B,D], v [N,H,B,D], block_tables i32[Q,M], query_start i32[Q+1], positions i32[T],
// k_scales f32[N,H,B,1], v_scales f32[N,H,B,1] if K and V are i8, sinks f32[Hq]?)
// {scale, window, softcap, uniform, k_scale, v_scale} -> [T,Hq,D]
Result<Types> InferAttention(const InferContext& c) {
  DI_RETURN_IF_ERROR(ExpectFloat(c, 0));
  DI_RETURN_IF_ERROR(ExpectRank(c, 0, 3));
  if (c.operands[1].dtype != DType::kI8) DI_RETURN_IF_ERROR(ExpectFloat(c, 1));
  DI_RETURN_IF_ERROR(ExpectRank(c, 1, 4));
  DI_RETURN_IF_ERROR(Expect(c, 2, c.operands[1]));
  DI_RETURN_IF_ERROR(RequireIndices(c, 3, 2));
  const Type& q = c.operands[0];
  const Type& cache = c.operands[1];
  DI_RETURN_IF_ERROR(Expect(c, 4, Type(DType::kI32, {c.operands[3].dims[0].size + 1})));
  DI_RETURN_IF_ERROR(Expect(c, 5, Type(DType::kI32, {q.dims[0]})));
  if (cache.dims[3].size != q.dims[2].size || cache.dims[1].size < 1 || q.dims[1].size % cache.dims[1].size != 0) {
    return TypeError(c, "queries {} do not fit the cache {}", ToString(q), ToString(cache));
  }
  if (c.node.Int("uniform") != 0 && q.dims[0].size != c.operands[3].dims[0].size) {
    return TypeError(c, "uniform needs one token per request: {} and {}", ToString(q), ToString(c.operands[3]));
  }
  DI_RETURN_IF_ERROR(CheckAttentionExtras(c));
  return Types{q};
}

// sample(the operands of ir/sampling.h) -> i32[R]
Result<Types> InferSample(const InferContext& c) {
  DI_RETURN_IF_ERROR(ExpectRank(c, kSampleLogits, 2));
  DI_RETURN_IF_ERROR(ExpectRank(c, kSampleAdjustIds, 2));
  const Dim rows = c.operands[kSampleLogits].dims[0];
  const int64_t words = (c.operands[kSampleLogits].dims[1].size + 31) / 32;
  const Dim places = c.operands[kSampleAdjustIds].dims[1];
  DI_RETURN_IF_ERROR(Expect(c, kSampleLogits, c.operands[kSampleLogits].WithDType(DType::kF32)));
  for (size_t i = kSampleTemperature; i < kNumSampleOperands; ++i) {
    const bool ids = i == kSampleTopK || (i >= kSampleHasMask && i <= kSampleAdjustIds);
    std::vector<Dim> dims = {rows};
    if (i == kSampleTokenMask) dims.push_back(words);
    if (i >= kSampleAdjustIds) dims.push_back(places);
    DI_RETURN_IF_ERROR(Expect(c, i, Type(ids ? DType::kI32 : DType::kF32, std::move(dims))));
  }
  return Types{Type(DType::kI32, {rows})};
}

// top_logprobs(logits f32[R,V], ids i32[R], want i32[R]) {k} -> f32[R], i32[R,k], f32[R,k]
Result<Types> InferTopLogprobs(const InferContext& c) {
  DI_RETURN_IF_ERROR(ExpectRank(c, 0, 2));
  const Dim rows = c.operands[0].dims[0];
  DI_RETURN_IF_ERROR(Expect(c, 0, c.operands[0].WithDType(DType::kF32)));
  DI_RETURN_IF_ERROR(Expect(c, 1, Type(DType::kI32, {rows})));
  DI_RETURN_IF_ERROR(Expect(c, 2, Type(DType::kI32, {rows})));
  const int64_t k = c.node.Int("k");
  if (k < 1 || k > c.operands[0].dims[1].size) return TypeError(c, "k = {} of {}", k, ToString(c.operands[0]));
  return Types{Type(DType::kF32, {rows}), Type(DType::kI32, {rows, k}), Type(DType::kF32, {rows, k})};
}

}  // namespace

Result<Types> InferComposite(const InferContext& c) {
  switch (c.node.op) {
    case Op::kEmbedding:
      return InferEmbedding(c);
    case Op::kRmsNorm:
    case Op::kAddRmsNorm:
      return InferNorm(c);
    case Op::kRopeTable:
      return InferRopeTable(c);
    case Op::kRope:
      return InferRope(c);
    case Op::kLinear:
    case Op::kMultiLinear:
      return InferLinear(c);
    case Op::kGlu:
      return InferGlu(c);
    case Op::kGatedLinear:
      return InferGatedLinear(c);
    case Op::kMoe:
      return InferMoe(c);
    case Op::kRopeKvWrite:
      return InferRopeKvWrite(c);
    case Op::kPagedSlotIndices:
      return InferSlotIndices(c);
    case Op::kQuantiseRows:
      return InferQuantiseRows(c);
    case Op::kPagedAttention:
      return InferAttention(c);
    case Op::kSample:
      return InferSample(c);
    case Op::kTopLogprobs:
      return InferTopLogprobs(c);
    default:
      return TypeError(c, "has no inference rule");
  }
}

}  // namespace deepinfer::ir::internal
