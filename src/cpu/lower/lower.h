// Lowering: a node becomes a launch of the best kernel that fits, chosen once from an ordered list.
//
// Every op has a place here: composites have kernels, and primitives without one run in the interpreter, which is the
// last entry of each list. CanLower says which composites a node can be lowered as; the others are decomposed.
#pragma once

#include <memory>

#include "base/cpu_features.h"
#include "base/error.h"
#include "base/numerics.h"
#include "cpu/launch.h"
#include "cpu/weights.h"
#include "ir/graph.h"

namespace deepinfer::cpu {

struct LowerContext {
  const ir::Function& f;
  Isa isa = Isa::kPortable;
  Numerics numerics = Numerics::kNative;
  Weights* weights = nullptr;
};

bool CanLower(const ir::Function& f, const ir::Node& node, Isa isa);
Result<std::unique_ptr<Launch>> Lower(const LowerContext& c, const ir::Node& node);

// By family; null where the node does not fit, so that the next entry of the list is tried.
using LaunchResult = Result<std::unique_ptr<Launch>>;
LaunchResult LowerLinear(const LowerContext& c, const ir::Node& node);
LaunchResult LowerGatedLinear(const LowerContext& c, const ir::Node& node);
LaunchResult LowerMoe(const LowerContext& c, const ir::Node& node);
LaunchResult LowerRopeKvWrite(const LowerContext& c, const ir::Node& node);
LaunchResult LowerEmbedding(const LowerContext& c, const ir::Node& node);
LaunchResult LowerNorm(const LowerContext& c, const ir::Node& node);
LaunchResult LowerRopeTable(const LowerContext& c, const ir::Node& node);
LaunchResult LowerRope(const LowerContext& c, const ir::Node& node);
LaunchResult LowerGlu(const LowerContext& c, const ir::Node& node);
LaunchResult LowerSlotIndices(const LowerContext& c, const ir::Node& node);
LaunchResult LowerQuantiseRows(const LowerContext& c, const ir::Node& node);
LaunchResult LowerAttention(const LowerContext& c, const ir::Node& node);
LaunchResult LowerSample(const LowerContext& c, const ir::Node& node);
LaunchResult LowerTopLogprobs(const LowerContext& c, const ir::Node& node);
LaunchResult LowerIndexPut(const LowerContext& c, const ir::Node& node);
LaunchResult LowerTake(const LowerContext& c, const ir::Node& node);
LaunchResult LowerBinary(const LowerContext& c, const ir::Node& node);
LaunchResult LowerConvert(const LowerContext& c, const ir::Node& node);
LaunchResult LowerPrimitive(const LowerContext& c, const ir::Node& node);

}  // namespace deepinfer::cpu
