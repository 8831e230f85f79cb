#include "cpu/lower/lower.h"

#include "cpu/kernels/attention/attention.h"
#include "cpu/kernels/copy/copy.h"
#include "cpu/kernels/linear/linear.h"

namespace deepinfer::cpu {
namespace {

using LowerFunction = LaunchResult (*)(const LowerContext&, const ir::Node&);

// The ordered list of an op: each is tried until one fits.
std::vector<LowerFunction> Candidates(ir::Op op) {
  switch (op) {
    case ir::Op::kLinear:
    case ir::Op::kMultiLinear:
      return {LowerLinear};
    case ir::Op::kGatedLinear:
      return {LowerGatedLinear};
    case ir::Op::kMoe:
      return {LowerMoe};
    case ir::Op::kRopeKvWrite:
      return {LowerRopeKvWrite};
    case ir::Op::kEmbedding:
      return {LowerEmbedding};
    case ir::Op::kRmsNorm:
    case ir::Op::kAddRmsNorm:
      return {LowerNorm};
    case ir::Op::kRopeTable:
      return {LowerRopeTable};
    case ir::Op::kRope:
      return {LowerRope};
    case ir::Op::kGlu:
      return {LowerGlu};
    case ir::Op::kPagedSlotIndices:
      return {LowerSlotIndices};
    case ir::Op::kQuantiseRows:
      return {LowerQuantiseRows};
    case ir::Op::kPagedAttention:
      return {LowerAttention};
    case ir::Op::kSample:
      return {LowerSample};
    case ir::Op::kTopLogprobs:
      return {LowerTopLogprobs};
    case ir::Op::kIndexPut:
      return {LowerIndexPut, LowerPrimitive};
    case ir::Op::kTake:
      return {LowerTake, LowerPrimitive};
    case ir::Op::kAdd:
    case ir::Op::kSub:
    case ir::Op::kMul:
    case ir::Op::kDiv:
    case ir::Op::kMax:
    case ir::Op::kMin:
      return {LowerBinary, LowerPrimitive};
    case ir::Op::kConvert:
      return {LowerConvert, LowerPrimitive};
    default:
      return {LowerPrimitive};
  }
}

bool IsActivation(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16;
}

bool IsWeight(const ir::Function& f, ir::ValueId value) {
  const ir::Input* input = f.FindInput(value);
  return input != nullptr && input->kind == ir::InputKind::kWeight;
}

bool IsF32Vector(const ir::Function& f, ir::ValueId value) {
  const ir::Type& type = f.TypeOf(value);
  return !type.encoding && type.dtype == DType::kF32;
}

bool CanLowerLinear(const ir::Function& f, const ir::Node& node) {
  const size_t weights = node.op == ir::Op::kLinear        ? 1
                         : node.op == ir::Op::kGatedLinear ? 2
                                                           : static_cast<size_t>(node.Int("weights"));
  for (size_t i = 1; i < node.operands.size(); ++i) {
    const bool is_bias = i > weights;
    if (is_bias ? !IsF32Vector(f, node.operands[i]) : !IsWeight(f, node.operands[i])) return false;
  }
  return IsActivation(f.TypeOf(node.operands[0]).dtype) && IsActivation(f.TypeOf(node.results[0]).dtype);
}

// Experts lie in whole panels of the packed weight.
bool CanLowerMoe(const ir::Function& f, const ir::Node& node) {
  for (size_t i = 2; i < 5; ++i) {
    if (!IsWeight(f, node.operands[i])) return false;
  }
  const ir::Type& x = f.TypeOf(node.operands[0]);
  const int64_t width = x.dims[1].size, inner = f.TypeOf(node.operands[4]).dims[1].size;
  return IsActivation(x.dtype) && IsF32Vector(f, node.operands[1]) && width % kLinearGrain == 0 &&
         inner % kLinearGrain == 0;
}

bool CanLowerRopeKvWrite(const ir::Function& f, const ir::Node& node, Isa isa) {
  const DType activation = f.TypeOf(node.operands[0]).dtype;
  const DType cache = f.TypeOf(node.operands[7]).dtype;
  for (size_t i = cache == DType::kI8 ? 11 : 9; i < node.operands.size(); ++i) {
    if (!IsF32Vector(f, node.operands[i])) return false;
  }
  if (SizeOf(cache) == 1) {
    return IsActivation(activation) && ChooseQuantiseRows(isa, activation, cache).run != nullptr;
  }
  return IsActivation(activation) && ChooseIndexPut(isa, activation, cache).paged != nullptr;
}

}  // namespace

bool CanLower(const ir::Function& f, const ir::Node& node, Isa isa) {
  const DType first = f.TypeOf(node.operands[0]).dtype;
  switch (node.op) {
    case ir::Op::kLinear:
    case ir::Op::kMultiLinear:
    case ir::Op::kGatedLinear:
      return CanLowerLinear(f, node);
    case ir::Op::kMoe:
      return CanLowerMoe(f, node);
    case ir::Op::kRopeKvWrite:
      return CanLowerRopeKvWrite(f, node, isa);
    case ir::Op::kEmbedding:
      return IsWeight(f, node.operands[0]) && IsActivation(f.TypeOf(node.results[0]).dtype);
    case ir::Op::kRmsNorm:
    case ir::Op::kAddRmsNorm:
      return IsActivation(first) && IsF32Vector(f, node.operands.back());
    case ir::Op::kRope:
    case ir::Op::kGlu:
      return IsActivation(first);
    case ir::Op::kQuantiseRows:
      return ChooseQuantiseRows(isa, first, f.TypeOf(node.results[0]).dtype).run != nullptr;
    case ir::Op::kPagedAttention:
      return ChoosePagedAttention(isa, first, f.TypeOf(node.operands[1]).dtype).run != nullptr;
    case ir::Op::kRopeTable:
    case ir::Op::kPagedSlotIndices:
    case ir::Op::kSample:
    case ir::Op::kTopLogprobs:
      return true;
    default:
      return false;
  }
}

Result<std::unique_ptr<Launch>> Lower(const LowerContext& c, const ir::Node& node) {
  for (const LowerFunction lower : Candidates(node.op)) {
    DI_ASSIGN_OR_RETURN(std::unique_ptr<Launch> launch, lower(c, node));
    if (launch != nullptr) return launch;
  }
  return MakeError(ErrorCode::kUnsupported, ToString(node.op), "the cpu backend has no kernel for it here");
}

}  // namespace deepinfer::cpu
