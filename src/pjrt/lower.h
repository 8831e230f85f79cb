// The StableHLO of each op. One function per family; Lower chooses. For src/pjrt only.
//
// Stable core ops only. Operands are in the order of the node's; the node has passed inference. Composites and
// index_put_ are kUnsupported: passes remove them first.
#pragma once

#include "base/error.h"
#include "ir/graph.h"
#include "pjrt/emitter.h"
#include "pjrt/stablehlo.h"

namespace deepinfer::pjrt {

struct LowerContext {
  Emitter& e;
  const ir::Node& node;
  const Vals& v;                       // operands
  const std::vector<ir::Type>& types;  // of the results
  const PrintOptions& options;
};

Result<Vals> Lower(const LowerContext& c);

Val LowerUnary(const LowerContext& c, const char* op);
Val LowerBinary(const LowerContext& c, const char* op);
Val LowerNegAbs(const LowerContext& c);
Val LowerDivRem(const LowerContext& c);
Val LowerShiftRight(const LowerContext& c);
Val LowerBitcast(const LowerContext& c);
Val LowerConstant(const LowerContext& c);
Val LowerIota(const LowerContext& c);
Val LowerMove(const LowerContext& c);  // reshape, broadcast_in_dim, transpose, slice, concatenate, pad
Val LowerDot(const LowerContext& c);
Val LowerReduce(const LowerContext& c);
Val LowerCumsum(const LowerContext& c);
Val LowerTake(const LowerContext& c);
Val LowerIndexPut(const LowerContext& c);
Val LowerDynamicSlice(const LowerContext& c);  // and the update
Vals LowerSort(const LowerContext& c);
Vals LowerTopK(const LowerContext& c);
Result<Vals> LowerCollective(const LowerContext& c);
Vals LowerCall(const LowerContext& c, const std::string& callee, size_t first_operand);
Vals LowerCase(const LowerContext& c);
Vals LowerCustomCall(const LowerContext& c);

}  // namespace deepinfer::pjrt
