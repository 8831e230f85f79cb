// Shape and dtype inference: the one definition of each op's operand and result types.
//
// InferTypes is pure: the same node and types give the same answer or the same error. Errors name the op and the rule.
// Ops whose result cannot follow from operands and attributes (constant, iota, convert, bitcast_convert, reshape,
// broadcast_in_dim, custom_call) take the declared types and check them.
#pragma once

#include <vector>

#include "base/error.h"
#include "ir/graph.h"

namespace deepinfer::ir {

Result<std::vector<Type>> InferTypes(const Module& module, const Node& node, const std::vector<Type>& operands,
                                     const std::vector<Type>& declared);

}  // namespace deepinfer::ir
