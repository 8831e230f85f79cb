// Common subexpressions and dead code.
#include <map>
#include <set>

#include "ir/in_place.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace deepinfer::passes {
namespace {

struct NodeKey {
  ir::Op op;
  std::vector<ir::ValueId> operands;
  ir::AttrMap attrs;
  std::string types;
  auto Tie() const { return std::tie(op, operands, types, attrs); }
  bool operator<(const NodeKey& other) const { return Tie() < other.Tie(); }
};

// What overwrites an operand, and structural ops may do anything: they are never merged.
bool Mergeable(const ir::Node& node) {
  return InfoOf(node.op).kind != ir::OpKind::kStructural && IsPure(node) && ir::InPlaceOf(node).empty();
}

bool MergeEqualNodes(ir::Function* f) {
  std::map<NodeKey, std::vector<ir::ValueId>> known;
  Substitution replaced(f->types.size());
  std::vector<ir::Node> nodes;
  bool changed = false;
  for (ir::Node& node : f->nodes) {
    replaced.Apply(&node);
    if (Mergeable(node)) {
      NodeKey key{node.op, node.operands, node.attrs, ""};
      for (const ir::ValueId result : node.results) key.types += ToString(f->TypeOf(result)) + ";";
      const auto [it, inserted] = known.emplace(std::move(key), node.results);
      if (!inserted) {
        for (size_t i = 0; i < node.results.size(); ++i) replaced.Set(node.results[i], it->second[i]);
        changed = true;
        continue;
      }
    }
    nodes.push_back(std::move(node));
  }
  f->nodes = std::move(nodes);
  for (ir::Output& output : f->outputs) output.value = replaced(output.value);
  return changed;
}

// Functions that do more than compute their results, themselves or through what they call.
std::set<std::string> FunctionsWithEffects(const ir::Module& module) {
  std::set<std::string> effects;
  for (const size_t index : CalleesFirst(module)) {
    const ir::Function& f = module.functions[index];
    for (const ir::Node& node : f.nodes) {
      bool effect = !IsPure(node);
      for (const std::string& name : CalleesOf(node)) effect = effect || effects.count(name) != 0;
      if (effect) effects.insert(f.name);
    }
  }
  return effects;
}

bool RemoveUnread(const std::set<std::string>& effects, ir::Function* f) {
  std::vector<bool> read(f->types.size(), false);
  for (const ir::Output& output : f->outputs) read[output.value] = true;
  std::vector<ir::Node> kept;
  for (auto node = f->nodes.rbegin(); node != f->nodes.rend(); ++node) {
    bool needed = !IsPure(*node);
    for (const std::string& name : CalleesOf(*node)) needed = needed || effects.count(name) != 0;
    for (const ir::ValueId result : node->results) needed = needed || read[result];
    if (!needed) continue;
    for (const ir::ValueId operand : node->operands) read[operand] = true;
    kept.push_back(std::move(*node));
  }
  const bool changed = kept.size() != f->nodes.size();
  f->nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  return changed;
}

bool RemoveUncalled(ir::Module* module) {
  std::set<std::string> called = {module->entry().name};
  const std::vector<size_t> order = CalleesFirst(*module);
  for (auto index = order.rbegin(); index != order.rend(); ++index) {
    const ir::Function& f = module->functions[*index];
    if (called.count(f.name) == 0) continue;
    for (const ir::Node& node : f.nodes) {
      for (const std::string& name : CalleesOf(node)) called.insert(name);
    }
  }
  std::vector<ir::Function> kept;
  for (ir::Function& f : module->functions) {
    if (called.count(f.name) != 0) {
      kept.push_back(std::move(f));
    } else {
      module->io_map.erase(f.name);
    }
  }
  const bool changed = kept.size() != module->functions.size();
  module->functions = std::move(kept);
  return changed;
}

}  // namespace

Result<bool> EliminateCommonSubexpressions(ir::Module* module, const PassContext& /*context*/) {
  return RewriteFunctions(module, MergeEqualNodes);
}

Result<bool> EliminateDeadCode(ir::Module* module, const PassContext& /*context*/) {
  const std::set<std::string> effects = FunctionsWithEffects(*module);
  const bool changed = RewriteFunctions(module, [&effects](ir::Function* f) { return RemoveUnread(effects, f); });
  return RemoveUncalled(module) || changed;
}

}  // namespace deepinfer::passes
