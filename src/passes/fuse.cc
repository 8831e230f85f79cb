// Fusions that keep every bit: the fused composite rounds where the separate ones did.
#include <map>
#include <tuple>

#include "ir/in_place.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace deepinfer::passes {
namespace {

bool AreInputs(const ir::Function& f, const ir::Node& node, size_t first) {
  for (size_t i = first; i < node.operands.size(); ++i) {
    if (f.FindInput(node.operands[i]) == nullptr) return false;
  }
  return true;
}

bool FuseAddNormIn(ir::Function* f) {
  const std::vector<int> definition = DefiningNode(*f);
  std::vector<bool> dead(f->nodes.size(), false);
  bool changed = false;
  for (ir::Node& norm : f->nodes) {
    if (norm.op != ir::Op::kRmsNorm) continue;
    const ir::ValueId sum = norm.operands[0];
    const int at = definition[sum];
    if (at < 0 || f->nodes[at].op != ir::Op::kAdd || dead[at]) continue;
    // The sum moves to the norm, so nothing between may read it, or overwrite what it is made of.
    const ir::Node& add = f->nodes[at];
    bool pinned = false;
    for (const ir::Node* between = &add + 1; between != &norm; ++between) {
      const bool may_write = !ir::InPlaceOf(*between).empty() || InfoOf(between->op).kind == ir::OpKind::kStructural;
      for (const ir::ValueId operand : between->operands) {
        pinned = pinned || operand == sum;
        pinned = pinned || (may_write && (operand == add.operands[0] || operand == add.operands[1]));
      }
    }
    if (pinned) continue;
    norm.op = ir::Op::kAddRmsNorm;
    norm.operands = {add.operands[0], add.operands[1], norm.operands[1]};
    norm.results = {sum, norm.results[0]};
    dead[at] = true;
    changed = true;
  }
  RemoveNodes(dead, f);
  return changed;
}

// Input, result dtype, with bias: what linears of one group share.
using GroupKey = std::tuple<ir::ValueId, DType, bool>;

ir::Node MergeLinears(const ir::Function& f, const std::vector<const ir::Node*>& group) {
  ir::Node merged;
  merged.op = ir::Op::kMultiLinear;
  merged.operands = {group[0]->operands[0]};
  const bool bias = group[0]->operands.size() == 3;
  for (const ir::Node* node : group) merged.operands.push_back(node->operands[1]);
  for (const ir::Node* node : group) {
    if (bias) merged.operands.push_back(node->operands[2]);
    merged.results.push_back(node->results[0]);
  }
  merged.attrs = {{"weights", static_cast<int64_t>(group.size())},
                  {"bias", int64_t{bias}},
                  {"dtype", std::string(ToString(f.TypeOf(group[0]->results[0]).dtype))}};
  return merged;
}

bool FuseLinearsIn(ir::Function* f) {
  std::map<GroupKey, std::vector<const ir::Node*>> groups;
  for (const ir::Node& node : f->nodes) {
    if (node.op != ir::Op::kLinear || !AreInputs(*f, node, 1)) continue;
    groups[{node.operands[0], f->TypeOf(node.results[0]).dtype, node.operands.size() == 3}].push_back(&node);
  }
  bool changed = false;
  std::map<const ir::Node*, std::vector<ir::Node>> replacement;
  for (const auto& [key, group] : groups) {
    if (group.size() < 2) continue;
    for (const ir::Node* node : group) replacement[node] = {};
    replacement[group[0]].push_back(MergeLinears(*f, group));
    changed = true;
  }
  std::vector<ir::Node> nodes;
  for (ir::Node& node : f->nodes) {
    if (const auto it = replacement.find(&node); it != replacement.end()) {
      for (ir::Node& each : it->second) nodes.push_back(std::move(each));
    } else {
      nodes.push_back(std::move(node));
    }
  }
  f->nodes = std::move(nodes);
  return changed;
}

}  // namespace

Result<bool> FuseAddNorm(ir::Module* module, const PassContext& /*context*/) {
  return RewriteFunctions(module, FuseAddNormIn);
}

Result<bool> FuseLinears(ir::Module* module, const PassContext& /*context*/) {
  return RewriteFunctions(module, FuseLinearsIn);
}

}  // namespace deepinfer::passes
