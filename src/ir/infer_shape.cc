// Ops that change the shape or the element type and compute nothing.
#include <algorithm>

#include "ir/infer_internal.h"

namespace deepinfer::ir::internal {
namespace {

Result<Type> Declared(const InferContext& c) {
  if (c.declared.size() != 1) return TypeError(c, "needs one declared result type, got {}", c.declared.size());
  if (c.declared[0].encoding) return TypeError(c, "cannot make an encoded weight");
  for (const Dim& dim : c.declared[0].dims) {
    if (dim.size < 0) return TypeError(c, "negative dimension in {}", ToString(c.declared[0]));
  }
  return c.declared[0];
}

Result<Types> InferConvert(const InferContext& c) {
  DI_ASSIGN_OR_RETURN(Type type, Declared(c));
  const Type expected = c.operands[0].WithDType(type.dtype);
  if (type != expected) return TypeError(c, "result must be {}, declared {}", ToString(expected), ToString(type));
  if (c.node.op == Op::kBitcastConvert && SizeOf(type.dtype) != SizeOf(c.operands[0].dtype)) {
    return TypeError(c, "{} and {} have different widths", ToString(c.operands[0]), ToString(type));
  }
  return Types{type};
}

Result<Types> InferConstant(const InferContext& c) {
  DI_ASSIGN_OR_RETURN(Type type, Declared(c));
  const auto it = c.node.attrs.find("value");
  if (it == c.node.attrs.end() || !std::holds_alternative<Bytes>(it->second))
    return TypeError(c, "needs 'value' bytes");
  const size_t bytes = std::get<Bytes>(it->second).size();
  if (bytes != static_cast<size_t>(type.Bytes()) && bytes != SizeOf(type.dtype)) {
    return TypeError(c, "{} bytes of value for {}", bytes, ToString(type));
  }
  return Types{type};
}

Result<Types> InferIota(const InferContext& c) {
  DI_ASSIGN_OR_RETURN(Type type, Declared(c));
  const int64_t dim = c.node.Int("dim", -1);
  if (dim < 0 || dim >= type.rank() || type.dtype == DType::kI1) {
    return TypeError(c, "dim {} of {} is not a countable dimension", dim, ToString(type));
  }
  return Types{type};
}

// Tags may change freely: a reshape may merge a counted dimension away and a later one may name it again.
Result<Types> InferReshape(const InferContext& c) {
  DI_ASSIGN_OR_RETURN(Type type, Declared(c));
  const Type& from = c.operands[0];
  if (type.dtype != from.dtype || type.NumElements() != from.NumElements()) {
    return TypeError(c, "cannot view {} as {}", ToString(from), ToString(type));
  }
  return Types{type};
}

Result<Types> InferBroadcast(const InferContext& c) {
  DI_ASSIGN_OR_RETURN(Type type, Declared(c));
  DI_ASSIGN_OR_RETURN(auto dims, RequireInts(c, "dims"));
  const Type& from = c.operands[0];
  if (dims.size() != from.dims.size() || type.dtype != from.dtype) {
    return TypeError(c, "{} mapped dimensions for {} to {}", dims.size(), ToString(from), ToString(type));
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || dims[i] >= type.rank() || (i > 0 && dims[i] <= dims[i - 1])) {
      return TypeError(c, "dims must ascend within the result's rank {}", type.rank());
    }
    const Dim& to = type.dims[dims[i]];
    if (from.dims[i].size != 1 && from.dims[i].size != to.size) {
      return TypeError(c, "dimension {} of {} cannot become {}", i, ToString(from), ToString(type));
    }
  }
  return Types{type};
}

Result<Types> InferTranspose(const InferContext& c) {
  DI_ASSIGN_OR_RETURN(auto perm, RequireInts(c, "perm"));
  const Type& from = c.operands[0];
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  Type type(from.dtype, {});
  for (size_t i = 0; i < perm.size(); ++i) {
    if (perm.size() != from.dims.size() || sorted[i] != static_cast<int64_t>(i)) {
      return TypeError(c, "perm is not a permutation of {}'s dimensions", ToString(from));
    }
    type.dims.push_back(from.dims[perm[i]]);
  }
  return Types{type};
}

Result<Types> InferSlice(const InferContext& c) {
  DI_ASSIGN_OR_RETURN(auto start, RequireInts(c, "start"));
  DI_ASSIGN_OR_RETURN(auto limit, RequireInts(c, "limit"));
  DI_ASSIGN_OR_RETURN(auto stride, RequireInts(c, "stride"));
  const Type& from = c.operands[0];
  const size_t rank = from.dims.size();
  if (start.size() != rank || limit.size() != rank || stride.size() != rank) {
    return TypeError(c, "start, limit and stride must have {} entries", rank);
  }
  Type type(from.dtype, {});
  for (size_t i = 0; i < rank; ++i) {
    if (start[i] < 0 || limit[i] < start[i] || limit[i] > from.dims[i].size || stride[i] < 1) {
      return TypeError(c, "[{}:{}:{}] is not within dimension {} of {}", start[i], limit[i], stride[i], i,
                       ToString(from));
    }
    const int64_t length = limit[i] - start[i];
    const int64_t size = length == 0 ? 0 : (length - 1) / stride[i] + 1;
    type.dims.emplace_back(size, size == from.dims[i].size ? from.dims[i].tag : DimTag::kNone);
  }
  return Types{type};
}

Result<Types> InferConcatenate(const InferContext& c) {
  const int64_t dim = c.node.Int("dim", -1);
  Type type = c.operands[0];
  if (dim < 0 || dim >= type.rank()) return TypeError(c, "dim {} of {}", dim, ToString(type));
  for (size_t i = 1; i < c.operands.size(); ++i) {
    const Type& part = c.operands[i];
    bool fits = part.dtype == type.dtype && part.rank() == type.rank();
    for (int d = 0; fits && d < type.rank(); ++d) fits = d == dim || part.dims[d].size == type.dims[d].size;
    if (!fits) return TypeError(c, "{} does not continue {}", ToString(part), ToString(c.operands[0]));
    type.dims[dim].size += part.dims[dim].size;
  }
  if (c.operands.size() > 1) type.dims[dim].tag = DimTag::kNone;
  return Types{type};
}

Result<Types> InferPad(const InferContext& c) {
  DI_ASSIGN_OR_RETURN(auto low, RequireInts(c, "low"));
  DI_ASSIGN_OR_RETURN(auto high, RequireInts(c, "high"));
  Type type = c.operands[0];
  const size_t rank = type.dims.size();
  if (low.size() != rank || high.size() != rank || c.operands[1] != Type(type.dtype, {})) {
    return TypeError(c, "needs low and high per dimension and a scalar {}", ToString(type.dtype));
  }
  for (size_t i = 0; i < rank; ++i) {
    constexpr int64_t kMax = int64_t{1} << 46;
    if (low[i] < 0 || high[i] < 0) return TypeError(c, "negative padding");
    if (low[i] > kMax || high[i] > kMax)
      return TypeError(c, "padding of {} and {} is no possible size", low[i], high[i]);
    if (low[i] + high[i] > 0) type.dims[i] = Dim(type.dims[i].size + low[i] + high[i]);
  }
  return Types{type};
}

}  // namespace

Result<Types> InferShapeOp(const InferContext& c) {
  switch (c.node.op) {
    case Op::kConstant:
      return InferConstant(c);
    case Op::kIota:
      return InferIota(c);
    case Op::kReshape:
      return InferReshape(c);
    case Op::kBroadcastInDim:
      return InferBroadcast(c);
    case Op::kTranspose:
      return InferTranspose(c);
    case Op::kSlice:
      return InferSlice(c);
    case Op::kConcatenate:
      return InferConcatenate(c);
    case Op::kPad:
      return InferPad(c);
    default:
      return InferConvert(c);
  }
}

}  // namespace deepinfer::ir::internal
