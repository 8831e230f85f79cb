// glu(linear(x, gate), linear(x, up)) becomes gated_linear, where the backend has a kernel for that.
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace deepinfer::passes {
namespace {

class GluFuser {
 public:
  GluFuser(ir::Function* f, const PassContext& context)
      : f_(*f), context_(context), definition_(DefiningNode(*f)), uses_(CountUses(*f)), dead_(f->nodes.size(), false) {}

  bool Run() {
    bool changed = false;
    for (ir::Node& node : f_.nodes) changed = (node.op == ir::Op::kGlu && Fuse(&node)) || changed;
    RemoveNodes(dead_, &f_);
    return changed;
  }

 private:
  // The linear whose result only the glu reads; null if there is none.
  const ir::Node* OnlyLinear(ir::ValueId value) const {
    const int at = definition_[value];
    const bool fits = at >= 0 && f_.nodes[at].op == ir::Op::kLinear && uses_[value] == 1;
    return fits ? &f_.nodes[at] : nullptr;
  }

  bool Fuse(ir::Node* glu) {
    const ir::Node* gate = OnlyLinear(glu->operands[0]);
    const ir::Node* up = OnlyLinear(glu->operands[1]);
    if (gate == nullptr || up == nullptr || gate->operands[0] != up->operands[0]) return false;
    if (gate->operands.size() != up->operands.size()) return false;
    ir::Node fused;
    fused.op = ir::Op::kGatedLinear;
    fused.operands = {gate->operands[0], gate->operands[1], up->operands[1]};
    if (gate->operands.size() == 3) {
      fused.operands.push_back(gate->operands[2]);
      fused.operands.push_back(up->operands[2]);
    }
    fused.results = glu->results;
    fused.attrs = {{"activation", glu->Str("activation")},
                   {"dtype", std::string(ToString(f_.TypeOf(glu->operands[0]).dtype))}};
    if (!context_.claims || !context_.claims(f_, fused)) return false;
    for (const ir::ValueId product : glu->operands) dead_[definition_[product]] = true;
    *glu = std::move(fused);
    return true;
  }

  ir::Function& f_;
  const PassContext& context_;
  std::vector<int> definition_;
  std::vector<int> uses_;
  std::vector<bool> dead_;
};

}  // namespace

Result<bool> FuseGlu(ir::Module* module, const PassContext& context) {
  return RewriteFunctions(module, [&context](ir::Function* f) { return GluFuser(f, context).Run(); });
}

}  // namespace deepinfer::passes
