// The one table of mappings. It has no default: an op that is added to ops.inc and not here does not compile.
#include "pjrt/lower.h"

namespace deepinfer::pjrt {
namespace {

tl::unexpected<Error> NotPrimitive(ir::Op op) {
  return MakeError(ErrorCode::kUnsupported, ToString(op), "has no StableHLO; run functionalize and decompose first");
}

}  // namespace

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wswitch"
Result<Vals> Lower(const LowerContext& c) {
  using ir::Op;
  switch (c.node.op) {
    case Op::kNeg:
    case Op::kAbs:
      return Vals{LowerNegAbs(c)};
    case Op::kExp:
      return Vals{LowerUnary(c, "stablehlo.exponential")};
    case Op::kLog:
      return Vals{LowerUnary(c, "stablehlo.log")};
    case Op::kTanh:
      return Vals{LowerUnary(c, "stablehlo.tanh")};
    case Op::kSqrt:
      return Vals{LowerUnary(c, "stablehlo.sqrt")};
    case Op::kRsqrt:
      return Vals{LowerUnary(c, "stablehlo.rsqrt")};
    case Op::kSin:
      return Vals{LowerUnary(c, "stablehlo.sine")};
    case Op::kCos:
      return Vals{LowerUnary(c, "stablehlo.cosine")};
    case Op::kLogistic:
      return Vals{LowerUnary(c, "stablehlo.logistic")};
    case Op::kFloor:
      return Vals{LowerUnary(c, "stablehlo.floor")};
    case Op::kNot:
      return Vals{LowerUnary(c, "stablehlo.not")};
    case Op::kAdd:
      return Vals{LowerBinary(c, "stablehlo.add")};
    case Op::kSub:
      return Vals{LowerBinary(c, "stablehlo.subtract")};
    case Op::kMul:
      return Vals{LowerBinary(c, "stablehlo.multiply")};
    case Op::kDiv:
    case Op::kRem:
      return Vals{LowerDivRem(c)};
    case Op::kPow:
      return Vals{LowerBinary(c, "stablehlo.power")};
    case Op::kMax:
      return Vals{LowerBinary(c, "stablehlo.maximum")};
    case Op::kMin:
      return Vals{LowerBinary(c, "stablehlo.minimum")};
    case Op::kAnd:
      return Vals{LowerBinary(c, "stablehlo.and")};
    case Op::kOr:
      return Vals{LowerBinary(c, "stablehlo.or")};
    case Op::kXor:
      return Vals{LowerBinary(c, "stablehlo.xor")};
    case Op::kShiftLeft:
      return Vals{LowerBinary(c, "stablehlo.shift_left")};
    case Op::kShiftRight:
      return Vals{LowerShiftRight(c)};
    case Op::kCompare:
      return Vals{c.e.Compare(c.v[0], c.v[1], c.node.Str("direction"))};
    case Op::kSelect:
      return Vals{c.e.Select(c.v[0], c.v[1], c.v[2])};
    case Op::kConvert:
      return Vals{c.e.Convert(c.v[0], c.types[0].dtype)};
    case Op::kBitcastConvert:
      return Vals{LowerBitcast(c)};
    case Op::kConstant:
      return Vals{LowerConstant(c)};
    case Op::kIota:
      return Vals{LowerIota(c)};
    case Op::kReshape:
    case Op::kBroadcastInDim:
    case Op::kTranspose:
    case Op::kSlice:
    case Op::kConcatenate:
    case Op::kPad:
      return Vals{LowerMove(c)};
    case Op::kDynamicSlice:
    case Op::kDynamicUpdateSlice:
      return Vals{LowerDynamicSlice(c)};
    case Op::kDotGeneral:
      return Vals{LowerDot(c)};
    case Op::kReduce:
      return Vals{LowerReduce(c)};
    case Op::kCumsum:
      return Vals{LowerCumsum(c)};
    case Op::kTake:
      return Vals{LowerTake(c)};
    case Op::kIndexPut:
      return Vals{LowerIndexPut(c)};
    case Op::kSort:
      return LowerSort(c);
    case Op::kTopK:
      return LowerTopK(c);
    case Op::kAllReduce:
    case Op::kAllGather:
    case Op::kReduceScatter:
    case Op::kAllToAll:
      return LowerCollective(c);
    case Op::kCall:
      return LowerCall(c, c.node.Str("callee"), 0);
    case Op::kBreak:
      return LowerCall(c, c.node.Str("body"), 0);
    case Op::kCase:
      return LowerCase(c);
    case Op::kCustomCall:
      return LowerCustomCall(c);
    case Op::kIndexPutInplace:
    case Op::kEmbedding:
    case Op::kRmsNorm:
    case Op::kAddRmsNorm:
    case Op::kRopeTable:
    case Op::kRope:
    case Op::kLinear:
    case Op::kMultiLinear:
    case Op::kGlu:
    case Op::kGatedLinear:
    case Op::kMoe:
    case Op::kPagedSlotIndices:
    case Op::kRopeKvWrite:
    case Op::kQuantiseRows:
    case Op::kPagedAttention:
    case Op::kSample:
    case Op::kTopLogprobs:
      return NotPrimitive(c.node.op);
  }
  return NotPrimitive(c.node.op);
}
#pragma GCC diagnostic pop

}  // namespace deepinfer::pjrt
