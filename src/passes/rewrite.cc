#include "passes/rewrite.h"

namespace deepinfer::passes {

void Substitution::Set(ir::ValueId from, ir::ValueId to) {
  if (from >= static_cast<ir::ValueId>(map_.size())) map_.resize(static_cast<size_t>(from) + 1, ir::kNoValue);
  map_[from] = to;
}

ir::ValueId Substitution::operator()(ir::ValueId value) const {
  while (value >= 0 && value < static_cast<ir::ValueId>(map_.size()) && map_[value] != ir::kNoValue)
    value = map_[value];
  return value;
}

void Substitution::Apply(ir::Node* node) const {
  for (ir::ValueId& operand : node->operands) operand = (*this)(operand);
}

bool IsPure(const ir::Node& node) {
  // A break may have host effects; a custom call may write its operands; index_put overwrites in place.
  return node.op != ir::Op::kBreak && node.op != ir::Op::kCustomCall && node.op != ir::Op::kIndexPutInplace;
}

std::vector<int> DefiningNode(const ir::Function& f) {
  std::vector<int> definition(f.types.size(), -1);
  for (size_t i = 0; i < f.nodes.size(); ++i) {
    for (const ir::ValueId result : f.nodes[i].results) definition[result] = static_cast<int>(i);
  }
  return definition;
}

std::vector<int> CountUses(const ir::Function& f) {
  std::vector<int> uses(f.types.size(), 0);
  for (const ir::Node& node : f.nodes) {
    for (const ir::ValueId operand : node.operands) ++uses[operand];
  }
  for (const ir::Output& output : f.outputs) ++uses[output.value];
  return uses;
}

void RemoveNodes(const std::vector<bool>& dead, ir::Function* f) {
  std::vector<ir::Node> nodes;
  for (size_t i = 0; i < f->nodes.size(); ++i) {
    if (!dead[i]) nodes.push_back(std::move(f->nodes[i]));
  }
  f->nodes = std::move(nodes);
}

std::vector<ir::ValueId> Splice(const ir::Function& callee, const std::vector<ir::ValueId>& operands,
                                ir::Function* target, std::vector<ir::Node>* nodes) {
  std::vector<ir::ValueId> map(callee.types.size(), ir::kNoValue);
  for (size_t i = 0; i < callee.inputs.size(); ++i) map[callee.inputs[i].value] = operands[i];
  for (const ir::Node& node : callee.nodes) {
    ir::Node copy = node;
    for (ir::ValueId& operand : copy.operands) operand = map[operand];
    for (ir::ValueId& result : copy.results) {
      map[result] = target->AddValue(callee.TypeOf(result));
      result = map[result];
    }
    nodes->push_back(std::move(copy));
  }
  std::vector<ir::ValueId> results;
  for (const ir::Output& output : callee.outputs) results.push_back(map[output.value]);
  return results;
}

namespace {

void Visit(const ir::Module& module, size_t index, std::vector<bool>* seen, std::vector<size_t>* order) {
  if ((*seen)[index]) return;
  (*seen)[index] = true;
  for (const ir::Node& node : module.functions[index].nodes) {
    for (const std::string& name : CalleesOf(node)) {
      if (const ir::Function* callee = module.Find(name)) {
        Visit(module, static_cast<size_t>(callee - module.functions.data()), seen, order);
      }
    }
  }
  order->push_back(index);
}

}  // namespace

std::vector<size_t> CalleesFirst(const ir::Module& module) {
  std::vector<bool> seen(module.functions.size(), false);
  std::vector<size_t> order;
  for (size_t i = 0; i < module.functions.size(); ++i) Visit(module, i, &seen, &order);
  return order;
}

}  // namespace deepinfer::passes
