#include "reference/flatten.h"

#include <algorithm>

namespace deepinfer::reference {
namespace {

using ir::Node;
using ir::Op;
using ir::ValueId;

// On as many ranks as both places have.
Launch Copy(const ir::Type& type, const Place& from, const Place& to) {
  Launch launch;
  launch.kind = Launch::Kind::kCopy;
  launch.extent = Extent(type);
  for (size_t rank = 0; rank < std::min(from.size(), to.size()); ++rank) {
    launch.ranks.push_back({{from[rank]}, {to[rank]}, {}});
  }
  return launch;
}

void Poison(const ir::Type& type, const Place& at, Launch* launch) {
  if (type.LeadingTag() == ir::DimTag::kNone) return;
  for (size_t rank = 0; rank < launch->ranks.size(); ++rank) {
    launch->ranks[rank].padding.push_back({static_cast<std::byte*>(at[rank]), Extent(type)});
  }
}

class Flattener {
 public:
  explicit Flattener(const FlattenContext& context) : c_(context) {}

  // The whole step, then the outputs that are not aliased states.
  Status Run(const std::vector<Place>& inputs, const std::vector<void*>& slots) {
    const ir::Function& entry = c_.module.entry();
    LaunchList open;
    DI_ASSIGN_OR_RETURN(const std::vector<Place> outputs, Flatten(entry, inputs, c_.split, &open));
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (slots[i] == nullptr) continue;
      open.push_back(Copy(entry.TypeOf(entry.outputs[i].value), outputs[i], {slots[i]}));
    }
    return CloseSegment(&open);
  }

 private:
  Status CloseSegment(LaunchList* open) {
    if (open->empty()) return {};
    LaunchList launches = std::move(*open);
    open->clear();
    return c_.add_segment(std::move(launches));
  }

  std::vector<Place> PlaceValues(const FunctionPlan& plan, const std::vector<Place>& inputs) const {
    const ir::Function& f = *plan.function;
    std::vector<Place> at(f.types.size(), Place(c_.frames.size(), nullptr));
    for (size_t i = 0; i < inputs.size(); ++i) at[f.inputs[i].value] = inputs[i];
    for (size_t i = 0; i < at.size(); ++i) {
      if (plan.offset[i] < 0) continue;
      for (size_t rank = 0; rank < c_.frames.size(); ++rank) {
        at[i][rank] = c_.frames[rank] + plan.frame_base + plan.offset[i];
      }
    }
    for (const auto& [value, bytes] : plan.constants) {
      at[value].assign(c_.frames.size(), const_cast<std::byte*>(bytes.data()));
    }
    for (size_t i = 0; i < at.size(); ++i) at[i] = at[plan.root[i]];
    return at;
  }

  // Appends the launches of a function on the given inputs; returns the places of its outputs.
  Result<std::vector<Place>> Flatten(const ir::Function& f, const std::vector<Place>& inputs, bool split,
                                     LaunchList* open) {
    const FunctionPlan& plan = c_.plans.at(f.name);
    const std::vector<Place> at = PlaceValues(plan, inputs);
    for (size_t i = 0; i < f.nodes.size(); ++i) {
      const Node& node = f.nodes[i];
      if (!CalleesOf(node).empty()) {
        DI_RETURN_IF_ERROR(FlattenCall(plan, node, at, split, open));
      } else if (plan.nodes[i] != nullptr || plan.collectives[i] != nullptr) {
        Launch launch = OnAllRanks(plan, node, at);
        launch.node = plan.nodes[i].get();
        if (plan.collectives[i] != nullptr) {
          launch.kind = Launch::Kind::kCollective;
          launch.collective = plan.collectives[i].get();
          launch.members.assign(at[node.operands[0]].begin(), at[node.operands[0]].end());
        }
        open->push_back(std::move(launch));
      }
    }
    return FinishFunction(plan, at, open);
  }

  // With the node's operands and results.
  Launch OnAllRanks(const FunctionPlan& plan, const Node& node, const std::vector<Place>& at) const {
    Launch launch;
    launch.ranks.resize(c_.frames.size());
    for (size_t rank = 0; rank < launch.ranks.size(); ++rank) {
      for (const ValueId operand : node.operands) launch.ranks[rank].operands.push_back(at[operand][rank]);
      for (const ValueId result : node.results) launch.ranks[rank].results.push_back(at[result][rank]);
    }
    if (!c_.poison_padding) return launch;
    for (const ValueId result : node.results) {
      if (plan.root[result] == result) Poison(plan.function->TypeOf(result), at[result], &launch);
    }
    return launch;
  }

  // A new content of a state that was not written in place goes to its place now: nobody reads the old one any more.
  Result<std::vector<Place>> FinishFunction(const FunctionPlan& plan, const std::vector<Place>& at,
                                            LaunchList* open) const {
    const ir::Function& f = *plan.function;
    std::vector<Place> outputs;
    for (const ir::Output& output : f.outputs) outputs.push_back(at[output.value]);
    const auto it = c_.module.io_map.find(f.name);
    if (it == c_.module.io_map.end()) return outputs;
    for (const ir::Alias& alias : it->second) {
      const ValueId value = f.outputs[alias.output].value;
      const ValueId input = f.inputs[alias.input].value;
      if (plan.root[value] == input) continue;
      if (plan.IsState(value)) {
        return MakeError(ErrorCode::kUnsupported, "output '" + f.outputs[alias.output].name + "'",
                         "one state's content becomes another's");
      }
      open->push_back(Copy(f.TypeOf(value), at[value], at[input]));
      outputs[alias.output] = at[input];
    }
    return outputs;
  }

  Status FlattenCall(const FunctionPlan& plan, const Node& node, const std::vector<Place>& at, bool split,
                     LaunchList* open) {
    std::vector<Place> operands;
    for (size_t i = FirstCallOperand(node); i < node.operands.size(); ++i) operands.push_back(at[node.operands[i]]);
    // A value that is not a state cannot be overwritten where it lies: the callee gets a copy, in the result's place.
    for (const ir::Alias& alias : AliasesOf(c_.module, node)) {
      const ValueId result = node.results[alias.output];
      if (at[result] == operands[alias.input]) continue;
      open->push_back(Copy(plan.function->TypeOf(result), operands[alias.input], at[result]));
      operands[alias.input] = at[result];
    }
    if (node.op == Op::kBreak && split) {
      DI_RETURN_IF_ERROR(CloseSegment(open));
      LaunchList body;
      DI_RETURN_IF_ERROR(FlattenBreak(plan, node, at, operands, &body));
      return c_.add_break(node.Str("name"), std::move(body));
    }
    if (node.op == Op::kBreak) return FlattenBreak(plan, node, at, operands, open);
    if (node.op == Op::kCall) return FlattenCallee(plan, node, node.Str("callee"), at, operands, split, open);
    Launch launch;
    launch.kind = Launch::Kind::kCase;
    for (const void* index : at[node.operands[0]]) launch.ranks.push_back({{index}, {}, {}});
    for (const std::string& branch : node.Strs("branches")) {
      DI_RETURN_IF_ERROR(
          FlattenCallee(plan, node, branch, at, operands, /*split=*/false, &launch.branches.emplace_back()));
    }
    open->push_back(std::move(launch));
    return {};
  }

  Status FlattenCallee(const FunctionPlan& plan, const Node& node, const std::string& callee,
                       const std::vector<Place>& at, const std::vector<Place>& operands, bool split, LaunchList* open) {
    DI_ASSIGN_OR_RETURN(const std::vector<Place> outputs, Flatten(*c_.module.Find(callee), operands, split, open));
    for (size_t i = 0; i < outputs.size(); ++i) {
      const ValueId result = node.results[i];
      if (at[result] == outputs[i]) continue;
      Launch copy = Copy(plan.function->TypeOf(result), outputs[i], at[result]);
      if (c_.poison_padding) Poison(plan.function->TypeOf(result), at[result], &copy);
      open->push_back(std::move(copy));
    }
    return {};
  }

  // The host function if there is one, else the body.
  Status FlattenBreak(const FunctionPlan& plan, const Node& node, const std::vector<Place>& at,
                      const std::vector<Place>& operands, LaunchList* open) {
    const auto host = c_.breaks.find(node.Str("name"));
    if (host == c_.breaks.end()) {
      return FlattenCallee(plan, node, node.Str("body"), at, operands, /*split=*/false, open);
    }
    Launch launch = OnAllRanks(plan, node, at);
    launch.kind = Launch::Kind::kBreak;
    launch.function = host->second;
    launch.context = std::make_unique<backend::BreakContext>();
    for (size_t i = 0; i < operands.size(); ++i) {
      launch.context->operands.push_back({&plan.function->TypeOf(node.operands[i]), operands[i][0]});
    }
    for (const ValueId result : node.results) {
      launch.context->results.push_back({&plan.function->TypeOf(result), at[result][0]});
    }
    open->push_back(std::move(launch));
    return {};
  }

  const FlattenContext& c_;
};

}  // namespace

Status FlattenStep(const FlattenContext& context, const std::vector<Place>& inputs, const std::vector<void*>& outputs) {
  return Flattener(context).Run(inputs, outputs);
}

}  // namespace deepinfer::reference
