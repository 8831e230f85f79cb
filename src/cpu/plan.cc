#include "cpu/plan.h"

#include <algorithm>
#include <set>

namespace deepinfer::cpu {
namespace {

using ir::ValueId;

std::vector<uint8_t> ExpandConstant(const ir::Type& type, const ir::Bytes& value) {
  std::vector<uint8_t> full(static_cast<size_t>(type.Bytes()));
  for (size_t i = 0; i < full.size(); ++i) full[i] = value[i % value.size()];
  return full;
}

class PlanBuilder {
 public:
  PlanBuilder(FlatStep step, Isa isa, Numerics numerics, Weights* weights, int members)
      : isa_(isa), numerics_(numerics), weights_(weights), members_(members) {
    plan_.step = std::move(step);
    const size_t values = plan_.step.f.types.size();
    written_.assign(values, -1);
    read_.assign(values, -1);
    first_.assign(values, -1);
  }

  Result<StepPlan> Run() {
    CopySharedOutputs();
    DI_RETURN_IF_ERROR(CopyNewStates());
    for (FlatPart& part : plan_.step.parts) DI_RETURN_IF_ERROR(LowerPart(&part));
    PlaceOutputs();
    PlaceValues();
    DI_RETURN_IF_ERROR(passes::CheckPlan(plan_.lifetimes, plan_.memory));
    plan_.needs.values = plan_.memory.bytes;
    plan_.groups = group_ + 1;
    return std::move(plan_);
  }

 private:
  ValueId Root(ValueId value) const { return plan_.step.roots[value]; }

  bool IsAliased(size_t output) const {
    for (const ir::Alias& alias : plan_.step.aliases) {
      if (alias.output == static_cast<int>(output)) return true;
    }
    return false;
  }

  // Appends a copy of `from` to the step; its bytes are those of `root`, or its own.
  ValueId AppendCopy(ValueId from, ValueId root = ir::kNoValue) {
    FlatStep& step = plan_.step;
    const ValueId copy = step.f.AddValue(step.f.TypeOf(from));
    step.roots.push_back(root == ir::kNoValue ? copy : root);
    written_.push_back(-1);
    read_.push_back(-1);
    first_.push_back(-1);
    step.parts.back().nodes.push_back({{ir::Op::kConvert, {from}, {copy}, {}}});
    return copy;
  }

  // An output has a fixed buffer of its own. One that is an input, a constant or another output too needs a copy.
  void CopySharedOutputs() {
    FlatStep& step = plan_.step;
    std::set<ValueId> taken;
    for (const ir::Input& input : step.f.inputs) taken.insert(input.value);
    for (const FlatPart& part : step.parts) {
      for (const FlatNode& flat : part.nodes) {
        if (flat.node.op == ir::Op::kConstant) taken.insert(flat.node.results[0]);
      }
    }
    for (size_t i = 0; i < step.f.outputs.size(); ++i) {
      if (IsAliased(i) || taken.insert(Root(step.f.outputs[i].value)).second) continue;
      step.f.outputs[i].value = AppendCopy(step.f.outputs[i].value);
    }
  }

  // A state's new content that was not written in place goes there at the end, when nobody reads the old one any more.
  Status CopyNewStates() {
    FlatStep& step = plan_.step;
    for (const ir::Alias& alias : step.aliases) {
      ir::Output& output = step.f.outputs[alias.output];
      const ValueId state = step.f.inputs[alias.input].value;
      if (Root(output.value) == state) continue;
      const ir::Input* other = step.f.FindInput(Root(output.value));
      if (other != nullptr && other->kind == ir::InputKind::kState) {
        return MakeError(ErrorCode::kUnsupported, output.name, "one state's content becomes another's");
      }
      output.value = AppendCopy(output.value, state);
    }
    return {};
  }

  // A node joins the open group unless it touches what the group writes, or writes what the group reads.
  int Place(const std::vector<ValueId>& reads, const std::vector<ValueId>& writes) {
    bool conflict = fresh_group_;
    for (const ValueId value : reads) conflict = conflict || written_[Root(value)] == group_;
    for (const ValueId value : writes) {
      conflict = conflict || written_[Root(value)] == group_ || read_[Root(value)] == group_;
    }
    if (conflict) ++group_;
    fresh_group_ = false;
    for (const ValueId value : reads) read_[Root(value)] = group_;
    for (const ValueId value : writes) {
      const ValueId root = Root(value);
      written_[root] = group_;
      if (first_[root] < 0) first_[root] = group_;
    }
    return group_;
  }

  Status LowerPart(FlatPart* flat) {
    fresh_group_ = true;
    Part part;
    part.is_break = flat->is_break;
    part.name = flat->name;
    part.host = flat->host;
    part.operands = flat->operands;
    part.results = flat->results;
    if (part.host != nullptr) Place(part.operands, part.results);
    for (size_t i = 0; i < flat->nodes.size(); ++i) DI_RETURN_IF_ERROR(LowerNode(flat->nodes[i], i, &part));
    plan_.parts.push_back(std::move(part));
    return {};
  }

  Status LowerNode(const FlatNode& flat, size_t index, Part* part) {
    const ir::Node& node = flat.node;
    if (node.op == ir::Op::kConstant) {
      const ir::Type& type = plan_.step.f.TypeOf(node.results[0]);
      plan_.constants[node.results[0]] = ExpandConstant(type, std::get<ir::Bytes>(node.attrs.at("value")));
      return {};
    }
    DI_RETURN_IF_ERROR(MakeWeightRows(node));
    PlacedLaunch placed;
    DI_ASSIGN_OR_RETURN(placed.launch, Lower(LowerContext{plan_.step.f, isa_, numerics_, weights_}, node));
    std::vector<ValueId> reads = node.operands;
    if (flat.predicate != ir::kNoValue) reads.push_back(flat.predicate);
    placed.node = index;
    placed.launch->SetMembers(members_);
    fresh_group_ = fresh_group_ || placed.launch->IsAlone();
    placed.group = Place(reads, node.results);
    fresh_group_ = placed.launch->IsAlone();
    placed.predicate = flat.predicate;
    placed.branch = flat.branch;
    placed.branches = flat.branches;
    plan_.needs.scratch = std::max(plan_.needs.scratch, placed.launch->ScratchBytes());
    plan_.needs.shared_scratch = std::max(plan_.needs.shared_scratch, placed.launch->SharedScratchBytes(members_));
    if (!placed.launch->without_kernel.empty()) plan_.without_kernel.insert(placed.launch->without_kernel);
    part->launches.push_back(std::move(placed));
    return {};
  }

  // Projections read packed weights, everything else plain rows.
  Status MakeWeightRows(const ir::Node& node) {
    switch (node.op) {
      case ir::Op::kLinear:
      case ir::Op::kMultiLinear:
      case ir::Op::kGatedLinear:
      case ir::Op::kMoe:
        return {};
      default:
        break;
    }
    for (const ValueId value : node.operands) {
      const ir::Input* input = plan_.step.f.FindInput(Root(value));
      if (input == nullptr || input->kind != ir::InputKind::kWeight) continue;
      DI_RETURN_IF_ERROR(weights_->MakeRows(input->name));
    }
    return {};
  }

  void PlaceOutputs() {
    for (size_t i = 0; i < plan_.step.f.outputs.size(); ++i) {
      const ir::Output& output = plan_.step.f.outputs[i];
      if (!IsAliased(i)) plan_.outputs[Root(output.value)] = output.name;
    }
  }

  void PlaceValues() {
    for (ValueId value = 0; value < static_cast<ValueId>(first_.size()); ++value) {
      const bool elsewhere = plan_.outputs.count(value) != 0 || plan_.constants.count(value) != 0 ||
                             plan_.step.f.FindInput(value) != nullptr;
      if (Root(value) != value || first_[value] < 0 || elsewhere) continue;
      passes::Lifetime life;
      life.name = fmt::format("%{}", value);
      life.bytes = plan_.step.f.TypeOf(value).Bytes();
      life.first = first_[value];
      life.last = std::max(read_[value], written_[value]);
      plan_.lifetimes.push_back(std::move(life));
      plan_.lifetime_of.push_back(value);
    }
    plan_.memory = passes::PlanMemory(plan_.lifetimes);
  }

  StepPlan plan_;
  Isa isa_;
  Numerics numerics_;
  Weights* weights_;
  int members_;
  int group_ = 0;
  bool fresh_group_ = true;   // the next node opens a group, whatever it touches
  std::vector<int> written_;  // by root: group of the last write, read, first write
  std::vector<int> read_;
  std::vector<int> first_;
};

}  // namespace

Result<StepPlan> BuildPlan(FlatStep step, Isa isa, Numerics numerics, Weights* weights, int members) {
  return PlanBuilder(std::move(step), isa, numerics, weights, members).Run();
}

}  // namespace deepinfer::cpu
