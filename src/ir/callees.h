// The functions that a structural node may run: the callee of a call, the body of a break, the branches of a case.
// Empty for every other op. Pure.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace deepinfer::ir {

std::vector<std::string> CalleesOf(const Node& node);

}  // namespace deepinfer::ir
