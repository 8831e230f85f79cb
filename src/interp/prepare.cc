#include "interp/prepare.h"

#include <cstdlib>
#include <new>

#include "ir/collective.h"

namespace deepinfer::interp {

void Workspace::Free::operator()(std::byte* p) const {
  ::operator delete[](p, std::align_val_t(64));
}

void Workspace::Reserve(size_t bytes_per_member) {
  if (bytes_per_member <= capacity_) return;
  capacity_ = bytes_per_member;
  for (auto& region : regions_) region.reset(new (std::align_val_t(64)) std::byte[capacity_]);
}

std::optional<ir::Bytes> PrepareContext::Splat(size_t operand) const {
  const ir::ValueId value = node.operands[operand];
  for (const ir::Node& other : function.nodes) {
    if (other.results.empty() || other.results[0] != value) continue;
    if (other.op != ir::Op::kConstant) return std::nullopt;
    const auto* bytes = std::get_if<ir::Bytes>(&other.attrs.at("value"));
    if (bytes == nullptr || bytes->size() != SizeOf(function.TypeOf(value).dtype)) return std::nullopt;
    return *bytes;
  }
  return std::nullopt;
}

namespace {

// A collective of a world of one rank changes nothing.
Prepared PrepareAlone(const PrepareContext& c) {
  const size_t ranks = c.node.Ints("groups").size();
  if (ranks == 1) return PrepareCopy(c);
  return MakeError(ErrorCode::kUnsupported, ToString(c.node.op), "is over {} ranks, and this is one rank alone", ranks);
}

Prepared Dispatch(const PrepareContext& c) {
  using ir::Op;
  switch (c.node.op) {
    case Op::kNeg:
    case Op::kAbs:
    case Op::kExp:
    case Op::kLog:
    case Op::kTanh:
    case Op::kSqrt:
    case Op::kRsqrt:
    case Op::kSin:
    case Op::kCos:
    case Op::kLogistic:
    case Op::kFloor:
    case Op::kNot:
      return PrepareUnary(c);
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kDiv:
    case Op::kRem:
    case Op::kPow:
    case Op::kMax:
    case Op::kMin:
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
    case Op::kShiftLeft:
    case Op::kShiftRight:
      return PrepareBinary(c);
    case Op::kCompare:
      return PrepareCompare(c);
    case Op::kSelect:
      return PrepareSelect(c);
    case Op::kConvert:
      return PrepareConvert(c);
    case Op::kBitcastConvert:
    case Op::kReshape:
      return PrepareCopy(c);
    case Op::kConstant:
      return PrepareConstant(c);
    case Op::kIota:
      return PrepareIota(c);
    case Op::kBroadcastInDim:
    case Op::kTranspose:
    case Op::kSlice:
    case Op::kConcatenate:
    case Op::kPad:
      return PrepareMove(c);
    case Op::kDynamicSlice:
      return PrepareDynamicSlice(c);
    case Op::kDynamicUpdateSlice:
      return PrepareDynamicUpdateSlice(c);
    case Op::kDotGeneral:
      return PrepareDot(c);
    case Op::kReduce:
      return PrepareReduce(c);
    case Op::kCumsum:
      return PrepareCumsum(c);
    case Op::kTake:
      return PrepareTake(c);
    case Op::kIndexPut:
      return PrepareIndexPut(c);
    case Op::kSort:
      return PrepareSort(c);
    case Op::kTopK:
      return PrepareTopK(c);
    case Op::kAllReduce:
    case Op::kAllGather:
    case Op::kReduceScatter:
    case Op::kAllToAll:
      return PrepareAlone(c);
    default:
      return MakeError(ErrorCode::kUnsupported, ToString(c.node.op), "is not a primitive");
  }
}

}  // namespace

Result<std::unique_ptr<PreparedNode>> PrepareNode(const ir::Function& function, const ir::Node& node,
                                                  std::shared_ptr<Workspace> workspace) {
  const ir::OpInfo& info = InfoOf(node.op);
  const int operands = static_cast<int>(node.operands.size());
  if (operands < info.min_operands || (info.max_operands >= 0 && operands > info.max_operands) ||
      (info.results >= 0 && static_cast<int>(node.results.size()) != info.results)) {
    return MakeError(ErrorCode::kInvalidArgument, info.name, "has {} operands and {} results", operands,
                     node.results.size());
  }
  for (const std::vector<ir::ValueId>* values : {&node.operands, &node.results}) {
    for (const ir::ValueId value : *values) {
      if (value < 0 || value >= static_cast<ir::ValueId>(function.types.size())) {
        return MakeError(ErrorCode::kInvalidArgument, info.name, "names %{}, which does not exist", value);
      }
      const ir::Type& type = function.TypeOf(value);
      if (type.rank() > kMaxRank) {
        return MakeError(ErrorCode::kUnsupported, info.name, "{} has more than {} dimensions", ToString(type),
                         kMaxRank);
      }
    }
  }
  if (workspace == nullptr) workspace = std::make_shared<Workspace>(1);
  return Dispatch({function, node, std::move(workspace)});
}

}  // namespace deepinfer::interp
