// Mutation becomes new values. index_put_(s, ...) turns into s' = index_put(s, ...); later readers see s'; a function
// that mutates a state gains one output, its new content, aliased to that input in io_map. Callees come first, so a
// call of a mutating function mutates its operands in turn.
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace deepinfer::passes {
namespace {

using ir::Alias;
using ir::ValueId;

// The state inputs that a structural node's callee mutates.
Result<std::vector<Alias>> AliasesOf(const ir::Module& module, const ir::Node& node) {
  std::vector<Alias> aliases;
  bool first = true;
  for (const std::string& name : CalleesOf(node)) {
    const auto it = module.io_map.find(name);
    const std::vector<Alias> own = it == module.io_map.end() ? std::vector<Alias>() : it->second;
    if (!first && own != aliases) {
      return MakeError(ErrorCode::kUnsupported, "case", "branch '{}' mutates other states than branch '{}'", name,
                       node.Strs("branches")[0]);
    }
    aliases = own;
    first = false;
  }
  return aliases;
}

class FunctionRewriter {
 public:
  FunctionRewriter(ir::Module* module, size_t index)
      : module_(module), f_(module->functions[index]), current_(f_.types.size()) {}

  Result<bool> Run() {
    for (ir::Node& node : f_.nodes) {
      current_.Apply(&node);
      if (node.op == ir::Op::kIndexPutInplace) {
        RewriteIndexPut(&node);
      } else {
        DI_RETURN_IF_ERROR(RewriteCall(&node));
      }
    }
    for (ir::Output& output : f_.outputs) output.value = current_(output.value);
    return AddStateOutputs();
  }

 private:
  void RewriteIndexPut(ir::Node* node) {
    const ValueId old = node->operands[0];
    node->op = ir::Op::kIndexPut;
    node->results = {f_.AddValue(f_.TypeOf(old))};
    current_.Set(old, node->results[0]);
    changed_ = true;
  }

  // The callee already has its state outputs; a call recorded before lacks the results for them.
  Status RewriteCall(ir::Node* node) {
    DI_ASSIGN_OR_RETURN(const std::vector<Alias> aliases, AliasesOf(*module_, *node));
    const size_t first = node->op == ir::Op::kCase ? 1 : 0;
    for (const Alias& alias : aliases) {
      if (static_cast<size_t>(alias.output) < node->results.size()) continue;
      const ValueId old = node->operands[first + alias.input];
      const ValueId fresh = f_.AddValue(f_.TypeOf(old));
      node->results.push_back(fresh);
      current_.Set(old, fresh);
      changed_ = true;
    }
    return {};
  }

  Result<bool> AddStateOutputs() {
    for (size_t i = 0; i < f_.inputs.size(); ++i) {
      const ir::Input& input = f_.inputs[i];
      const ValueId latest = current_(input.value);
      if (latest == input.value) continue;
      module_->io_map[f_.name].push_back({static_cast<int>(f_.outputs.size()), static_cast<int>(i)});
      f_.outputs.push_back({input.name, latest});
    }
    return changed_;
  }

  ir::Module* module_;
  ir::Function& f_;
  Substitution current_;
  bool changed_ = false;
};

}  // namespace

Result<bool> Functionalize(ir::Module* module, const PassContext& /*context*/) {
  bool changed = false;
  for (const size_t index : CalleesFirst(*module)) {
    DI_ASSIGN_OR_RETURN(const bool own, FunctionRewriter(module, index).Run());
    changed = changed || own;
  }
  return changed;
}

}  // namespace deepinfer::passes
