#include "ir/infer.h"

#include "ir/infer_internal.h"

namespace deepinfer::ir {
namespace internal {

Result<Type> MergeShapes(const InferContext& c, const Type& a, const Type& b) {
  if (!SameShape(a, b)) return TypeError(c, "shapes differ: {} and {}", ToString(a), ToString(b));
  Type merged = a;
  for (size_t i = 0; i < a.dims.size(); ++i) {
    const DimTag left = a.dims[i].tag;
    const DimTag right = b.dims[i].tag;
    if (left != DimTag::kNone && right != DimTag::kNone && left != right) {
      return TypeError(c, "dimension {} counts different things: {} and {}", i, ToString(a), ToString(b));
    }
    if (left == DimTag::kNone) merged.dims[i].tag = right;
  }
  return merged;
}

Result<std::vector<int64_t>> RequireInts(const InferContext& c, const char* key) {
  const auto it = c.node.attrs.find(key);
  if (it == c.node.attrs.end() || !std::holds_alternative<std::vector<int64_t>>(it->second)) {
    return TypeError(c, "needs the integer list attribute '{}'", key);
  }
  return std::get<std::vector<int64_t>>(it->second);
}

Status RequireIndices(const InferContext& c, size_t operand, int rank) {
  const Type& type = c.operands[operand];
  if (type.encoding || type.dtype != DType::kI32 || type.rank() != rank) {
    return TypeError(c, "operand {} must be i32 of rank {}, got {}", operand, rank, ToString(type));
  }
  return {};
}

Status RequirePlain(const InferContext& c) {
  for (size_t i = 0; i < c.operands.size(); ++i) {
    if (c.operands[i].encoding) {
      return TypeError(c, "operand {} is an encoded weight ({}); only composites read those", i,
                       ToString(c.operands[i]));
    }
  }
  return {};
}

}  // namespace internal

namespace {

Status CheckSizes(const internal::InferContext& c, const std::vector<Type>& types) {
  for (const Type& type : types) {
    if (!type.Addressable()) return internal::TypeError(c, "{} is no possible size", ToString(type));
  }
  return {};
}

Result<std::vector<Type>> Infer(const internal::InferContext& c) {
  const Node& node = c.node;
  const OpInfo& info = InfoOf(node.op);
  const int count = static_cast<int>(c.operands.size());
  if (count < info.min_operands || (info.max_operands >= 0 && count > info.max_operands)) {
    return internal::TypeError(c, "takes {}{} operands, got {}", info.min_operands,
                               info.max_operands == info.min_operands ? "" : " or more", count);
  }
  if (info.kind == OpKind::kComposite) return internal::InferComposite(c);
  if (info.kind == OpKind::kStructural) return internal::InferStructural(c);
  DI_RETURN_IF_ERROR(internal::RequirePlain(c));
  switch (node.op) {
    case Op::kConvert:
    case Op::kBitcastConvert:
    case Op::kConstant:
    case Op::kIota:
    case Op::kReshape:
    case Op::kBroadcastInDim:
    case Op::kTranspose:
    case Op::kSlice:
    case Op::kConcatenate:
    case Op::kPad:
      return internal::InferShapeOp(c);
    case Op::kDynamicSlice:
    case Op::kDynamicUpdateSlice:
    case Op::kDotGeneral:
    case Op::kReduce:
    case Op::kCumsum:
    case Op::kTake:
    case Op::kIndexPut:
    case Op::kIndexPutInplace:
    case Op::kSort:
    case Op::kTopK:
      return internal::InferIndexing(c);
    case Op::kAllReduce:
    case Op::kAllGather:
    case Op::kReduceScatter:
    case Op::kAllToAll:
      return internal::InferCollective(c);
    default:
      return internal::InferPrimitive(c);
  }
}

}  // namespace

Result<std::vector<Type>> InferTypes(const Module& module, const Node& node, const std::vector<Type>& operands,
                                     const std::vector<Type>& declared) {
  const internal::InferContext c{module, node, operands, declared};
  DI_RETURN_IF_ERROR(CheckSizes(c, operands));
  DI_RETURN_IF_ERROR(CheckSizes(c, declared));
  DI_ASSIGN_OR_RETURN(std::vector<Type> results, Infer(c));
  DI_RETURN_IF_ERROR(CheckSizes(c, results));
  return results;
}

}  // namespace deepinfer::ir
