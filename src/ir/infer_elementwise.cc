// Elementwise primitives.
#include "ir/infer_internal.h"

namespace deepinfer::ir::internal {
namespace {

Status RequireFloat(const InferContext& c) {
  if (!IsFloat(c.operands[0].dtype)) return TypeError(c, "needs a float operand, got {}", ToString(c.operands[0]));
  return {};
}

bool AllowsBool(Op op) {
  return op == Op::kAnd || op == Op::kOr || op == Op::kXor || op == Op::kNot;
}

Status CheckBitwise(const InferContext& c) {
  const DType dtype = c.operands[0].dtype;
  if (IsFloat(dtype)) return TypeError(c, "needs integers or i1, got {}", ToString(c.operands[0]));
  if ((c.node.op == Op::kShiftLeft || c.node.op == Op::kShiftRight) && dtype == DType::kI1) {
    return TypeError(c, "cannot shift i1");
  }
  return {};
}

Result<Types> InferUnary(const InferContext& c) {
  switch (c.node.op) {
    case Op::kNeg:
    case Op::kAbs:
      if (c.operands[0].dtype == DType::kI1) return TypeError(c, "needs numbers, got i1");
      break;
    case Op::kNot:
      DI_RETURN_IF_ERROR(CheckBitwise(c));
      break;
    default:
      DI_RETURN_IF_ERROR(RequireFloat(c));
  }
  return Types{c.operands[0]};
}

Result<Types> InferBinary(const InferContext& c) {
  const Type& a = c.operands[0];
  const Type& b = c.operands[1];
  if (a.dtype != b.dtype) return TypeError(c, "element types differ: {} and {}", ToString(a), ToString(b));
  DI_ASSIGN_OR_RETURN(Type type, MergeShapes(c, a, b));
  switch (c.node.op) {
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
    case Op::kShiftLeft:
    case Op::kShiftRight:
      DI_RETURN_IF_ERROR(CheckBitwise(c));
      break;
    case Op::kPow:
      DI_RETURN_IF_ERROR(RequireFloat(c));
      break;
    case Op::kCompare: {
      const std::string direction = c.node.Str("direction");
      bool known = false;
      for (const char* name : {"eq", "ne", "lt", "le", "gt", "ge"}) known = known || direction == name;
      if (!known) return TypeError(c, "direction must be eq, ne, lt, le, gt or ge, got '{}'", direction);
      return Types{type.WithDType(DType::kI1)};
    }
    default:
      if (a.dtype == DType::kI1 && !AllowsBool(c.node.op)) return TypeError(c, "needs numbers, got i1");
  }
  return Types{type};
}

}  // namespace

Result<Types> InferPrimitive(const InferContext& c) {
  if (c.node.op == Op::kSelect) {
    if (c.operands[0].dtype != DType::kI1) return TypeError(c, "operand 0 must be i1, got {}", ToString(c.operands[0]));
    if (c.operands[1].dtype != c.operands[2].dtype) {
      return TypeError(c, "element types differ: {} and {}", ToString(c.operands[1]), ToString(c.operands[2]));
    }
    DI_ASSIGN_OR_RETURN(Type values, MergeShapes(c, c.operands[1], c.operands[2]));
    DI_ASSIGN_OR_RETURN(Type type, MergeShapes(c, values, c.operands[0]));
    return Types{type};
  }
  return c.operands.size() == 1 ? InferUnary(c) : InferBinary(c);
}

}  // namespace deepinfer::ir::internal
