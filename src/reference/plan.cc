#include "reference/plan.h"

#include <algorithm>
#include <limits>

#include "ir/collective.h"
#include "passes/memory_plan.h"

namespace deepinfer::reference {
namespace {

using ir::Node;
using ir::Op;
using ir::ValueId;

bool IsCall(const Node& node) {
  return node.op == Op::kCall || node.op == Op::kBreak || node.op == Op::kCase;
}

class Planner {
 public:
  Planner(const ir::Module& module, const ir::Function& function, std::shared_ptr<interp::Workspace> workspace)
      : module_(module), f_(function), workspace_(std::move(workspace)) {}

  Result<FunctionPlan> Run() {
    plan_.function = &f_;
    plan_.nodes.resize(f_.nodes.size());
    plan_.collectives.resize(f_.nodes.size());
    plan_.offset.assign(f_.types.size(), -1);
    for (size_t i = 0; i < f_.types.size(); ++i) plan_.root.push_back(static_cast<ValueId>(i));
    for (size_t i = 0; i < f_.nodes.size(); ++i) {
      DI_RETURN_IF_ERROR(CheckNode(f_.nodes[i]));
      ShareMemory(f_.nodes[i]);
      if (IsCall(f_.nodes[i]) || f_.nodes[i].op == Op::kConstant || IsView(f_.nodes[i])) continue;
      if (ir::IsCollective(f_.nodes[i].op) && f_.nodes[i].Ints("groups").size() != 1) {
        DI_ASSIGN_OR_RETURN(plan_.collectives[i], interp::PrepareCollective(f_, f_.nodes[i]));
      } else {
        DI_ASSIGN_OR_RETURN(plan_.nodes[i], interp::PrepareNode(f_, f_.nodes[i], workspace_));
      }
    }
    DI_RETURN_IF_ERROR(MakeConstants());
    PlaceValues();
    return std::move(plan_);
  }

 private:
  Status CheckNode(const Node& node) const {
    if (node.op == Op::kCustomCall) {
      return MakeError(ErrorCode::kUnsupported, "custom_call", "the reference backend has no '{}'", node.Str("target"));
    }
    const ir::OpKind kind = InfoOf(node.op).kind;
    if (kind == ir::OpKind::kComposite || kind == ir::OpKind::kMutation) {
      return MakeError(ErrorCode::kUnsupported, ToString(node.op),
                       "must be rewritten by the passes that this backend lists");
    }
    return {};
  }

  bool IsView(const Node& node) const {
    return (node.op == Op::kReshape || node.op == Op::kBitcastConvert) && !plan_.IsState(node.operands[0]);
  }

  // A view of a state would change under its readers, so only other values are viewed; a state is overwritten in place.
  void ShareMemory(const Node& node) {
    if (IsView(node) || (node.op == Op::kIndexPut && plan_.IsState(node.operands[0]))) {
      plan_.root[node.results[0]] = plan_.root[node.operands[0]];
    }
    if (!IsCall(node)) return;
    for (const ir::Alias& alias : AliasesOf(module_, node)) {
      const ValueId operand = node.operands[FirstCallOperand(node) + alias.input];
      if (plan_.IsState(operand)) plan_.root[node.results[alias.output]] = plan_.root[operand];
    }
  }

  bool IsRead(ValueId value) const {
    for (size_t i = 0; i < f_.nodes.size(); ++i) {
      const Node& node = f_.nodes[i];
      for (size_t j = 0; j < node.operands.size(); ++j) {
        if (node.operands[j] != value) continue;
        if (plan_.nodes[i] == nullptr || plan_.nodes[i]->Reads(j)) return true;
      }
    }
    return std::any_of(f_.outputs.begin(), f_.outputs.end(), [&](const ir::Output& o) { return o.value == value; });
  }

  Status MakeConstants() {
    ir::LiveCounts all;
    all.count.fill(std::numeric_limits<int64_t>::max());
    for (const Node& node : f_.nodes) {
      if (node.op != Op::kConstant || !IsRead(node.results[0])) continue;
      DI_ASSIGN_OR_RETURN(const auto prepared, interp::PrepareNode(f_, node));
      std::vector<std::byte>& bytes = plan_.constants[node.results[0]];
      bytes.resize(static_cast<size_t>(f_.TypeOf(node.results[0]).Bytes()));
      void* result = bytes.data();
      prepared->Run(nullptr, &result, all, nullptr);
    }
    return {};
  }

  void PlaceValues() {
    const int end = static_cast<int>(f_.nodes.size());
    std::vector<int> first(f_.types.size(), -1);
    std::vector<int> last(f_.types.size(), -1);
    for (int i = 0; i < end; ++i) {
      const Node& node = f_.nodes[i];
      for (const ValueId operand : node.operands) last[plan_.root[operand]] = i;
      if (node.op == Op::kConstant) continue;
      for (const ValueId result : node.results) {
        last[plan_.root[result]] = i;
        if (plan_.root[result] == result) first[result] = i;
      }
    }
    for (const ir::Output& output : f_.outputs) last[plan_.root[output.value]] = end;
    std::vector<passes::Lifetime> lives;
    std::vector<ValueId> placed;
    for (size_t i = 0; i < f_.types.size(); ++i) {
      if (first[i] < 0) continue;
      lives.push_back({fmt::format("%{}", i), f_.types[i].Bytes(), first[i], last[i]});
      placed.push_back(static_cast<ValueId>(i));
    }
    const passes::MemoryPlan memory = passes::PlanMemory(lives);
    for (size_t i = 0; i < placed.size(); ++i) plan_.offset[placed[i]] = memory.offsets[i];
    plan_.frame_bytes = memory.bytes;
  }

  const ir::Module& module_;
  const ir::Function& f_;
  std::shared_ptr<interp::Workspace> workspace_;
  FunctionPlan plan_;
};

}  // namespace

bool FunctionPlan::IsState(ValueId value) const {
  const ir::Input* input = function->FindInput(root[value]);
  return input != nullptr && input->kind == ir::InputKind::kState;
}

size_t FirstCallOperand(const Node& node) {
  return node.op == Op::kCase ? 1 : 0;
}

// Functionalize has made sure that all branches of a case mutate the same states.
std::vector<ir::Alias> AliasesOf(const ir::Module& module, const Node& node) {
  const auto it = module.io_map.find(CalleesOf(node)[0]);
  return it == module.io_map.end() ? std::vector<ir::Alias>() : it->second;
}

Result<FunctionPlan> PlanFunction(const ir::Module& module, const ir::Function& function,
                                  const std::shared_ptr<interp::Workspace>& workspace) {
  return Planner(module, function, workspace).Run();
}

}  // namespace deepinfer::reference
