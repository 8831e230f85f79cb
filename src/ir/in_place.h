// What a node overwrites: operands whose bytes become a result's. Calls are not followed (their io_map says it). Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/graph.h"

namespace deepinfer::ir {

struct InPlace {
  size_t operand = 0;
  size_t result = 0;
};
std::vector<InPlace> InPlaceOf(const Node& node);

}  // namespace deepinfer::ir
