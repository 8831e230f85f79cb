// Turns a step's functions, which call each other, into flat lists of launches with fixed addresses, on all ranks at
// once. For src/reference only.
//
// Every rank has a copy of all frames; constants are shared. A value of one rank never shares memory with another's,
// and no result lies where an operand of the same launch does (but for a state that is written in place), so ranks may
// run a launch in any order. Not thread-safe.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "reference/launch.h"
#include "reference/plan.h"

namespace deepinfer::reference {

using Place = std::vector<void*>;  // where a value lies, by rank

struct FlattenContext {
  const ir::Module& module;
  const std::map<std::string, FunctionPlan>& plans;  // by function
  const backend::BreakRegistry& breaks;              // host functions, for one rank only
  bool split = false;                                // at breaks
  bool poison_padding = false;
  std::vector<std::byte*> frames;  // by rank
  // Take the lists in order: what lies between breaks, and a break. Without `split` there is one list.
  std::function<Status(LaunchList)> add_segment;
  std::function<Status(const std::string& name, LaunchList)> add_break;
};

// inputs: of the step, in order. outputs: of the first rank, in order; null for aliased states.
Status FlattenStep(const FlattenContext& context, const std::vector<Place>& inputs, const std::vector<void*>& outputs);

}  // namespace deepinfer::reference
