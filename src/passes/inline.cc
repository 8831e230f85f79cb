// Inlining: calls (outlined layers) and, in full mode, bodies of breaks. Break bodies keep their own functions.
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace deepinfer::passes {
namespace {

Result<bool> Inline(ir::Module* module, ir::Op op, const char* callee_attr) {
  bool changed = false;
  for (const size_t index : CalleesFirst(*module)) {
    ir::Function& f = module->functions[index];
    Substitution replaced(f.types.size());
    std::vector<ir::Node> nodes;
    for (ir::Node& node : f.nodes) {
      replaced.Apply(&node);
      if (node.op != op) {
        nodes.push_back(std::move(node));
        continue;
      }
      const ir::Function* callee = module->Find(node.Str(callee_attr));
      const std::vector<ir::ValueId> results = Splice(*callee, node.operands, &f, &nodes);
      for (size_t i = 0; i < node.results.size(); ++i) replaced.Set(node.results[i], results[i]);
      changed = true;
    }
    f.nodes = std::move(nodes);
    for (ir::Output& output : f.outputs) output.value = replaced(output.value);
  }
  return changed;
}

}  // namespace

Result<bool> InlineCalls(ir::Module* module, const PassContext& /*context*/) {
  return Inline(module, ir::Op::kCall, "callee");
}

Result<bool> InlineBreaks(ir::Module* module, const PassContext& /*context*/) {
  return Inline(module, ir::Op::kBreak, "body");
}

// The debug mode of breakable graphs: a host can look at the state after every layer.
Result<bool> BreakAfterCalls(ir::Module* module, const PassContext& /*context*/) {
  bool changed = false;
  for (ir::Node& node : module->entry().nodes) {
    if (node.op != ir::Op::kCall) continue;
    const std::string callee = node.Str("callee");
    node.op = ir::Op::kBreak;
    node.attrs = {{"name", callee}, {"body", callee}};
    changed = true;
  }
  return changed;
}

}  // namespace deepinfer::passes
