// Contractions, reductions, indexing and ordering.
#include <algorithm>

#include "ir/infer_internal.h"

namespace deepinfer::ir::internal {
namespace {

bool Contains(const std::vector<int64_t>& list, int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

bool DistinctWithin(std::vector<int64_t> dims, int rank) {
  std::sort(dims.begin(), dims.end());
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || dims[i] >= rank || (i > 0 && dims[i] == dims[i - 1])) return false;
  }
  return true;
}

Result<Types> InferDot(const InferContext& c) {
  DI_ASSIGN_OR_RETURN(auto lhs_batch, RequireInts(c, "lhs_batch"));
  DI_ASSIGN_OR_RETURN(auto rhs_batch, RequireInts(c, "rhs_batch"));
  DI_ASSIGN_OR_RETURN(auto lhs_contract, RequireInts(c, "lhs_contract"));
  DI_ASSIGN_OR_RETURN(auto rhs_contract, RequireInts(c, "rhs_contract"));
  const Type& lhs = c.operands[0];
  const Type& rhs = c.operands[1];
  std::vector<int64_t> lhs_used = lhs_batch;
  std::vector<int64_t> rhs_used = rhs_batch;
  lhs_used.insert(lhs_used.end(), lhs_contract.begin(), lhs_contract.end());
  rhs_used.insert(rhs_used.end(), rhs_contract.begin(), rhs_contract.end());
  if (lhs.dtype != rhs.dtype || !IsFloat(lhs.dtype)) {
    return TypeError(c, "needs two floats of one element type, got {} and {}", ToString(lhs), ToString(rhs));
  }
  if (lhs_batch.size() != rhs_batch.size() || lhs_contract.size() != rhs_contract.size() ||
      !DistinctWithin(lhs_used, lhs.rank()) || !DistinctWithin(rhs_used, rhs.rank())) {
    return TypeError(c, "batch and contracting dimensions do not pair up for {} and {}", ToString(lhs), ToString(rhs));
  }
  for (size_t i = 0; i < lhs_used.size(); ++i) {
    if (lhs.dims[lhs_used[i]].size != rhs.dims[rhs_used[i]].size) {
      return TypeError(c, "dimension {} of {} and {} of {} differ", lhs_used[i], ToString(lhs), rhs_used[i],
                       ToString(rhs));
    }
  }
  Type type(lhs.dtype, {});
  if (const std::string name = c.node.Str("dtype"); !name.empty()) {
    const auto dtype = ParseDType(name);
    if (!dtype || !IsFloat(*dtype)) return TypeError(c, "dtype '{}' is not a float type", name);
    type.dtype = *dtype;
  }
  for (const int64_t dim : lhs_batch) type.dims.push_back(lhs.dims[dim]);
  for (int i = 0; i < lhs.rank(); ++i) {
    if (!Contains(lhs_used, i)) type.dims.push_back(lhs.dims[i]);
  }
  for (int i = 0; i < rhs.rank(); ++i) {
    if (!Contains(rhs_used, i)) type.dims.push_back(rhs.dims[i]);
  }
  return Types{type};
}

Result<Types> InferReduce(const InferContext& c) {
  DI_ASSIGN_OR_RETURN(auto dims, RequireInts(c, "dims"));
  const Type& from = c.operands[0];
  const std::string kind = c.node.Str("kind");
  const bool logical = kind == "and" || kind == "or";
  if (!logical && kind != "sum" && kind != "max" && kind != "min") {
    return TypeError(c, "kind must be sum, max, min, and or or, got '{}'", kind);
  }
  if (logical != (from.dtype == DType::kI1)) return TypeError(c, "kind '{}' does not fit {}", kind, ToString(from));
  if (!DistinctWithin(dims, from.rank())) return TypeError(c, "dims do not fit {}", ToString(from));
  Type type(from.dtype, {});
  for (int i = 0; i < from.rank(); ++i) {
    if (!Contains(dims, i)) type.dims.push_back(from.dims[i]);
  }
  return Types{type};
}

Result<Types> InferTake(const InferContext& c) {
  const Type& table = c.operands[0];
  const Type& indices = c.operands[1];
  if (table.rank() < 1) return TypeError(c, "cannot index a scalar");
  DI_RETURN_IF_ERROR(RequireIndices(c, 1, indices.rank()));
  Type type(table.dtype, indices.dims);
  type.dims.insert(type.dims.end(), table.dims.begin() + 1, table.dims.end());
  return Types{type};
}

// index_put(operand, index per indexed dimension..., rows): operand[..., index_i[t], ...] = rows[t].
Result<Types> InferIndexPut(const InferContext& c) {
  DI_ASSIGN_OR_RETURN(auto dims, RequireInts(c, "dims"));
  const Type& operand = c.operands[0];
  const Type& rows = c.operands.back();
  if (dims.size() + 2 != c.operands.size() || !DistinctWithin(dims, operand.rank()) ||
      !std::is_sorted(dims.begin(), dims.end())) {
    return TypeError(c, "dims must ascend within {} and have one index operand each", ToString(operand));
  }
  Type expected(operand.dtype, {c.operands[1].rank() == 1 ? c.operands[1].dims[0] : Dim(0)});
  for (size_t i = 1; i + 1 < c.operands.size(); ++i) {
    DI_RETURN_IF_ERROR(RequireIndices(c, i, 1));
    if (c.operands[i].dims[0].size != expected.dims[0].size) return TypeError(c, "index operands differ in length");
  }
  for (int i = 0; i < operand.rank(); ++i) {
    if (!Contains(dims, i)) expected.dims.push_back(operand.dims[i]);
  }
  if (!SameShape(rows, expected) || rows.dtype != expected.dtype) {
    return TypeError(c, "rows must be {}, got {}", ToString(expected), ToString(rows));
  }
  if (c.node.op == Op::kIndexPutInplace) return Types{};
  return Types{operand};
}

Result<Types> InferSort(const InferContext& c) {
  const Type& key = c.operands[0];
  const int64_t dim = c.node.Int("dim", -1);
  if (dim < 0 || dim >= key.rank()) return TypeError(c, "dim {} of {}", dim, ToString(key));
  for (const Type& operand : c.operands) {
    if (!SameShape(operand, key)) return TypeError(c, "shapes differ: {} and {}", ToString(key), ToString(operand));
  }
  return c.operands;
}

Result<Types> InferTopK(const InferContext& c) {
  Type values = c.operands[0];
  const int64_t k = c.node.Int("k", 0);
  if (values.rank() < 1 || k < 1 || k > values.dims.back().size) {
    return TypeError(c, "k = {} of {}", k, ToString(values));
  }
  values.dims.back() = Dim(k);
  return Types{values, values.WithDType(DType::kI32)};
}

Result<Types> InferDynamicSlice(const InferContext& c) {
  const bool update = c.node.op == Op::kDynamicUpdateSlice;
  const Type& from = c.operands[0];
  const size_t first = update ? 2 : 1;
  std::vector<int64_t> sizes;
  if (update) {
    sizes = c.operands[1].Shape();
    if (c.operands[1].dtype != from.dtype) return TypeError(c, "element types differ");
  } else {
    DI_ASSIGN_OR_RETURN(sizes, RequireInts(c, "sizes"));
  }
  if (sizes.size() != from.dims.size() || c.operands.size() != first + from.dims.size()) {
    return TypeError(c, "needs one scalar start and one size per dimension of {}", ToString(from));
  }
  Type slice(from.dtype, {});
  for (size_t i = 0; i < sizes.size(); ++i) {
    DI_RETURN_IF_ERROR(RequireIndices(c, first + i, 0));
    if (sizes[i] < 0 || sizes[i] > from.dims[i].size) return TypeError(c, "size {} of {}", sizes[i], ToString(from));
    slice.dims.push_back(sizes[i] == from.dims[i].size ? from.dims[i] : Dim(sizes[i]));
  }
  return Types{update ? from : slice};
}

}  // namespace

Result<Types> InferIndexing(const InferContext& c) {
  switch (c.node.op) {
    case Op::kDotGeneral:
      return InferDot(c);
    case Op::kReduce:
      return InferReduce(c);
    case Op::kCumsum: {
      const int64_t dim = c.node.Int("dim", -1);
      if (dim < 0 || dim >= c.operands[0].rank()) return TypeError(c, "dim {} of {}", dim, ToString(c.operands[0]));
      if (c.operands[0].dtype == DType::kI1) return TypeError(c, "needs numbers, got i1");
      return Types{c.operands[0]};
    }
    case Op::kTake:
      return InferTake(c);
    case Op::kSort:
      return InferSort(c);
    case Op::kTopK:
      return InferTopK(c);
    case Op::kDynamicSlice:
    case Op::kDynamicUpdateSlice:
      return InferDynamicSlice(c);
    default:
      return InferIndexPut(c);
  }
}

}  // namespace deepinfer::ir::internal
