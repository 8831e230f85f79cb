// From a module to the flat order of one step: calls and branches spliced in, breaks as parts of their own.
//
// Nodes of a branch of `case` carry a predicate: they run when the scalar `predicate` equals `branch` (the last branch
// also takes every index out of range). Reshapes cost nothing: roots maps every value to the value whose bytes it
// shares (through reshape, in-place index_put and in-place structure). Only states are overwritten in place: another
// value that is put into is copied first, and so is a view or a plain result of a state, which a later write would
// change. Pure.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/error.h"
#include "ir/graph.h"

namespace deepinfer::cpu {

struct FlatNode {
  ir::Node node;
  ir::ValueId predicate = ir::kNoValue;
  int64_t branch = 0;
  int64_t branches = 0;
};

struct FlatPart {
  bool is_break = false;
  std::string name;             // of the break
  backend::BreakFunction host;  // stands in for the nodes; operands and results below; may be empty
  std::vector<ir::ValueId> operands;
  std::vector<ir::ValueId> results;
  std::vector<FlatNode> nodes;
};

struct FlatStep {
  ir::Function f;  // values, inputs and outputs of the step; its nodes are in the parts
  std::vector<FlatPart> parts;
  std::vector<ir::ValueId> roots;
  std::vector<ir::Alias> aliases;  // of the step
};

Result<FlatStep> Flatten(const ir::Module& module, const backend::CompileOptions& options);

}  // namespace deepinfer::cpu
