// Helpers shared by passes: value substitution, splicing one function's body into another. Not thread-safe on
// one function.
#pragma once

#include <string>
#include <vector>

#include "ir/callees.h"
#include "ir/graph.h"

namespace deepinfer::passes {

// Follows replacements: map[v] is what v became, or kNoValue.
class Substitution {
 public:
  explicit Substitution(size_t values) : map_(values, ir::kNoValue) {}
  void Set(ir::ValueId from, ir::ValueId to);
  ir::ValueId operator()(ir::ValueId value) const;
  void Apply(ir::Node* node) const;

 private:
  std::vector<ir::ValueId> map_;
};

bool IsPure(const ir::Node& node);  // may be removed when unused, and merged with an equal node

// By value: the node of `f` that defines it, -1 for inputs; and how many operands and outputs read it.
std::vector<int> DefiningNode(const ir::Function& f);
std::vector<int> CountUses(const ir::Function& f);

// Removes the nodes that are marked.
void RemoveNodes(const std::vector<bool>& dead, ir::Function* f);

// rewrite(&f) for every function of the module: whether any of them changed.
template <class Rewrite>
bool RewriteFunctions(ir::Module* module, Rewrite rewrite) {
  bool changed = false;
  for (ir::Function& f : module->functions) changed = rewrite(&f) || changed;
  return changed;
}

// Appends callee's nodes to *nodes as part of `target`, with callee's inputs bound to `operands`. Returns the values of
// callee's outputs.
std::vector<ir::ValueId> Splice(const ir::Function& callee, const std::vector<ir::ValueId>& operands,
                                ir::Function* target, std::vector<ir::Node>* nodes);

// Function indices, callees before callers.
std::vector<size_t> CalleesFirst(const ir::Module& module);

}  // namespace deepinfer::passes
