// The decomposition of each composite into primitives: its definition. The reference backend always runs these; a
// kernel for a composite is right when it agrees with them. Pure; thread-safe.
#pragma once

#include <vector>

#include "ir/builder.h"

namespace deepinfer::ir {

// Records the decomposition of `node` (a composite) on `operands` and returns its results.
std::vector<Value> Decompose(Builder& b, const Node& node, const std::vector<Value>& operands);

namespace internal {

using Values = std::vector<Value>;

Values DecomposeEmbedding(Builder& b, const Node& node, const Values& v);
Values DecomposeRmsNorm(Builder& b, const Node& node, const Values& v);
Values DecomposeAddRmsNorm(Builder& b, const Node& node, const Values& v);
Values DecomposeRopeTable(Builder& b, const Node& node, const Values& v);
Values DecomposeRope(Builder& b, const Node& node, const Values& v);
Values DecomposeLinear(Builder& b, const Node& node, const Values& v);
Values DecomposeMultiLinear(Builder& b, const Node& node, const Values& v);
Values DecomposeGlu(Builder& b, const Node& node, const Values& v);
Values DecomposeGatedLinear(Builder& b, const Node& node, const Values& v);
Values DecomposeMoe(Builder& b, const Node& node, const Values& v);
Values DecomposeRopeKvWrite(Builder& b, const Node& node, const Values& v);
Values DecomposePagedSlotIndices(Builder& b, const Node& node, const Values& v);
Values DecomposeQuantiseRows(Builder& b, const Node& node, const Values& v);
Values DecomposePagedAttention(Builder& b, const Node& node, const Values& v);
Values DecomposeSample(Builder& b, const Node& node, const Values& v);
Values DecomposeTopLogprobs(Builder& b, const Node& node, const Values& v);

}  // namespace internal
}  // namespace deepinfer::ir
