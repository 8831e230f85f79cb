// Debugging: what each outlined layer returns becomes an output of the step, so that a host can look at it.
#include <algorithm>

#include "passes/pass.h"

namespace deepinfer::passes {

Result<bool> ExposeCalls(ir::Module* module, const PassContext& /*context*/) {
  ir::Function& step = module->entry();
  int call = 0;
  bool changed = false;
  for (const ir::Node& node : step.nodes) {
    if (node.op != ir::Op::kCall) continue;
    for (size_t i = 0; i < node.results.size(); ++i) {
      const std::string name =
          fmt::format("{}{}{}", kExposedPrefix, call, node.results.size() > 1 ? fmt::format(".{}", i) : "");
      const auto same = [&](const ir::Output& output) { return output.name == name; };
      if (std::any_of(step.outputs.begin(), step.outputs.end(), same)) continue;
      step.outputs.push_back({name, node.results[i]});
      changed = true;
    }
    ++call;
  }
  return changed;
}

}  // namespace deepinfer::passes
