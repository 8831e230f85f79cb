#include "ir/composites/decompose.h"

namespace deepinfer::ir {

std::vector<Value> Decompose(Builder& b, const Node& node, const std::vector<Value>& operands) {
  switch (node.op) {
    case Op::kEmbedding:
      return internal::DecomposeEmbedding(b, node, operands);
    case Op::kRmsNorm:
      return internal::DecomposeRmsNorm(b, node, operands);
    case Op::kAddRmsNorm:
      return internal::DecomposeAddRmsNorm(b, node, operands);
    case Op::kRopeTable:
      return internal::DecomposeRopeTable(b, node, operands);
    case Op::kRope:
      return internal::DecomposeRope(b, node, operands);
    case Op::kLinear:
      return internal::DecomposeLinear(b, node, operands);
    case Op::kMultiLinear:
      return internal::DecomposeMultiLinear(b, node, operands);
    case Op::kGlu:
      return internal::DecomposeGlu(b, node, operands);
    case Op::kGatedLinear:
      return internal::DecomposeGatedLinear(b, node, operands);
    case Op::kMoe:
      return internal::DecomposeMoe(b, node, operands);
    case Op::kRopeKvWrite:
      return internal::DecomposeRopeKvWrite(b, node, operands);
    case Op::kPagedSlotIndices:
      return internal::DecomposePagedSlotIndices(b, node, operands);
    case Op::kQuantiseRows:
      return internal::DecomposeQuantiseRows(b, node, operands);
    case Op::kPagedAttention:
      return internal::DecomposePagedAttention(b, node, operands);
    case Op::kSample:
      return internal::DecomposeSample(b, node, operands);
    case Op::kTopLogprobs:
      return internal::DecomposeTopLogprobs(b, node, operands);
    default:
      break;
  }
  b.Fail({ErrorCode::kInternal, "is not a composite", ToString(node.op)});
  return {};
}

}  // namespace deepinfer::ir
