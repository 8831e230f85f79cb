// Composites that the backend has no kernel for become primitives.
#include "ir/composites/decompose.h"

#include <algorithm>

#include "ir/in_place.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace deepinfer::passes {
namespace {

// The decomposition as a function of its own, with the node's operands as inputs.
Result<ir::Module> RecordDecomposition(const ir::Function& f, const ir::Node& node) {
  ir::ModuleBuilder module;
  ir::Builder b = module.Entry(ToString(node.op));
  const std::vector<ir::InPlace> in_place = ir::InPlaceOf(node);
  std::vector<ir::Value> operands;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const bool overwritten = std::ranges::any_of(in_place, [&](const ir::InPlace& each) { return each.operand == i; });
    const ir::InputKind kind = overwritten ? ir::InputKind::kState : ir::InputKind::kArgument;
    operands.push_back(b.Input(fmt::format("operand{}", i), kind, f.TypeOf(node.operands[i])));
  }
  for (const ir::Value result : ir::Decompose(b, node, operands)) b.Output("result", result);
  return module.Finish();
}

}  // namespace

Result<bool> DecomposeUnclaimed(ir::Module* module, const PassContext& context) {
  bool changed = false;
  for (ir::Function& f : module->functions) {
    Substitution replaced(f.types.size());
    std::vector<ir::Node> nodes;
    for (ir::Node& node : f.nodes) {
      replaced.Apply(&node);
      const bool composite = InfoOf(node.op).kind == ir::OpKind::kComposite;
      if (!composite || (context.claims && context.claims(f, node))) {
        nodes.push_back(std::move(node));
        continue;
      }
      DI_ASSIGN_OR_RETURN(const ir::Module body, RecordDecomposition(f, node));
      const std::vector<ir::ValueId> results = Splice(body.entry(), node.operands, &f, &nodes);
      for (size_t i = 0; i < results.size(); ++i) {
        if (f.TypeOf(results[i]) != f.TypeOf(node.results[i])) {
          // Only tags can differ: the composite's rule knows what the dimension counts.
          nodes.push_back({ir::Op::kReshape, {results[i]}, {node.results[i]}, {}});
        } else {
          replaced.Set(node.results[i], results[i]);
        }
      }
      changed = true;
    }
    f.nodes = std::move(nodes);
    for (ir::Output& output : f.outputs) output.value = replaced(output.value);
  }
  return changed;
}

}  // namespace deepinfer::passes
