#include "ir/verify.h"

#include <set>

#include "ir/callees.h"
#include "ir/collective.h"
#include "ir/in_place.h"
#include "ir/infer.h"

namespace deepinfer::ir {
namespace {

tl::unexpected<Error> Bad(const Function& function, std::string message) {
  return tl::unexpected(Error{ErrorCode::kInvalidArgument, std::move(message), "function '" + function.name + "'"});
}

std::string Describe(const Node& node) {
  return node.results.empty() ? ToString(node.op) : fmt::format("%{} {}", node.results[0], ToString(node.op));
}

Status CheckNode(const Module& module, const Function& function, const Node& node, std::vector<bool>* defined) {
  std::vector<Type> operands;
  for (const ValueId operand : node.operands) {
    if (operand < 0 || operand >= static_cast<ValueId>(function.types.size()) || !(*defined)[operand]) {
      return Bad(function, fmt::format("{} reads %{}, which is not defined before it", Describe(node), operand));
    }
    operands.push_back(function.TypeOf(operand));
  }
  std::vector<Type> results;
  for (const ValueId result : node.results) {
    if (result < 0 || result >= static_cast<ValueId>(function.types.size()) || (*defined)[result]) {
      return Bad(function, fmt::format("{} defines %{} a second time", Describe(node), result));
    }
    (*defined)[result] = true;
    results.push_back(function.TypeOf(result));
  }
  auto inferred = InferTypes(module, node, operands, results);
  if (!inferred) return Bad(function, inferred.error().ToString());
  if (*inferred != results) return Bad(function, fmt::format("{} has result types that do not follow", Describe(node)));
  return {};
}

// The values that a node overwrites in place: operand ids.
std::vector<ValueId> Overwritten(const Module& module, const Node& node) {
  std::vector<ValueId> values;
  for (const InPlace& in_place : InPlaceOf(node)) values.push_back(node.operands[in_place.operand]);
  const size_t first = node.op == Op::kCase ? 1 : 0;
  for (const std::string& callee : CalleesOf(node)) {
    const auto aliases = module.io_map.find(callee);
    if (aliases == module.io_map.end()) continue;
    for (const Alias& alias : aliases->second) values.push_back(node.operands[first + alias.input]);
  }
  return values;
}

// A state that was overwritten lives on in the overwriting node's result; its old content is gone.
Status CheckOverwrites(const Module& module, const Function& function) {
  std::map<ValueId, const Node*> gone;
  std::set<ValueId> states;
  for (const Input& input : function.inputs) {
    if (input.kind == InputKind::kState) states.insert(input.value);
  }
  for (const Node& node : function.nodes) {
    for (const ValueId operand : node.operands) {
      if (const auto it = gone.find(operand); it != gone.end()) {
        return Bad(function, fmt::format("{} reads %{}, which {} has overwritten", Describe(node), operand,
                                         Describe(*it->second)));
      }
    }
    for (const ValueId value : Overwritten(module, node)) {
      if (function.FindInput(value) != nullptr && states.count(value) == 0) {
        return Bad(function, fmt::format("{} overwrites the {} input '{}'; only states are mutated", Describe(node),
                                         ToString(function.FindInput(value)->kind), function.FindInput(value)->name));
      }
      gone[value] = &node;
    }
    if (node.op == Op::kIndexPutInplace && states.count(node.operands[0]) == 0) {
      return Bad(function, fmt::format("index_put_ writes %{}, which is not a state input", node.operands[0]));
    }
  }
  for (const Output& output : function.outputs) {
    if (const auto it = gone.find(output.value); it != gone.end()) {
      return Bad(function, fmt::format("output '{}' is %{}, which {} has overwritten", output.name, output.value,
                                       Describe(*it->second)));
    }
  }
  return {};
}

Status CheckIoMap(const Module& module, const Function& function) {
  const auto it = module.io_map.find(function.name);
  if (it == module.io_map.end()) return {};
  std::set<int> inputs;
  std::set<int> outputs;
  for (const Alias& alias : it->second) {
    if (alias.input < 0 || alias.input >= static_cast<int>(function.inputs.size()) || alias.output < 0 ||
        alias.output >= static_cast<int>(function.outputs.size())) {
      return Bad(function,
                 fmt::format("io_map pairs output {} with input {}: out of range", alias.output, alias.input));
    }
    const Input& input = function.inputs[alias.input];
    const Output& output = function.outputs[alias.output];
    if (input.kind != InputKind::kState) {
      return Bad(function, fmt::format("output '{}' aliases '{}', which is a {}, not a state", output.name, input.name,
                                       ToString(input.kind)));
    }
    if (function.TypeOf(input.value) != function.TypeOf(output.value)) {
      return Bad(function, fmt::format("output '{}' is {} but aliases '{}', which is {}", output.name,
                                       ToString(function.TypeOf(output.value)), input.name,
                                       ToString(function.TypeOf(input.value))));
    }
    if (!inputs.insert(alias.input).second || !outputs.insert(alias.output).second) {
      return Bad(function, fmt::format("io_map names '{}' and '{}' twice", input.name, output.name));
    }
  }
  return {};
}

// done: functions known not to reach themselves, so that each is walked once however often it is called.
Status CheckRecursion(const Module& module, const Function& function, std::vector<std::string>* stack,
                      std::set<std::string>* done) {
  if (done->count(function.name) != 0) return {};
  for (const std::string& name : *stack) {
    if (name == function.name) return Bad(function, "calls itself");
  }
  constexpr size_t kMaxDepth = 64;
  if (stack->size() >= kMaxDepth) return Bad(function, fmt::format("is called more than {} calls deep", kMaxDepth));
  stack->push_back(function.name);
  for (const Node& node : function.nodes) {
    for (const std::string& name : CalleesOf(node)) {
      if (const Function* callee = module.Find(name)) DI_RETURN_IF_ERROR(CheckRecursion(module, *callee, stack, done));
    }
  }
  stack->pop_back();
  done->insert(function.name);
  return {};
}

Status CheckFunction(const Module& module, const Function& function) {
  std::vector<bool> defined(function.types.size(), false);
  std::set<std::string> names;
  for (const Input& input : function.inputs) {
    if (input.value < 0 || input.value >= static_cast<ValueId>(defined.size()) || defined[input.value]) {
      return Bad(function, fmt::format("input '{}' has no value of its own", input.name));
    }
    if (!function.TypeOf(input.value).Addressable()) {
      return Bad(function,
                 fmt::format("input '{}' is {}, no possible size", input.name, ToString(function.TypeOf(input.value))));
    }
    if (!names.insert(input.name).second) return Bad(function, fmt::format("two inputs are named '{}'", input.name));
    defined[input.value] = true;
  }
  for (const Node& node : function.nodes) DI_RETURN_IF_ERROR(CheckNode(module, function, node, &defined));
  for (const Output& output : function.outputs) {
    if (output.value < 0 || output.value >= static_cast<ValueId>(defined.size()) || !defined[output.value]) {
      return Bad(function, fmt::format("output '{}' is not defined", output.name));
    }
  }
  return CheckIoMap(module, function);
}

Status CheckLiveCounts(const Module& module) {
  if (module.live_counts == kNoValue) return {};
  const Function& entry = module.entry();
  const Input* input = entry.FindInput(module.live_counts);
  if (input == nullptr || input->kind != InputKind::kMetadata ||
      entry.TypeOf(module.live_counts) != Type(DType::kI32, {kNumTags})) {
    return Bad(entry, fmt::format("live counts must be a metadata input i32[{}]", kNumTags));
  }
  return {};
}

// Ranks may choose different branches: one that waits for the others in a branch may wait for ever.
Status CheckBranches(const Module& module, const Function& function, bool in_branch) {
  for (const Node& node : function.nodes) {
    if (in_branch && IsCollective(node.op)) {
      return Bad(function,
                 fmt::format("{} is within a branch of a case, which not every rank may run", Describe(node)));
    }
    for (const std::string& name : CalleesOf(node)) {
      DI_RETURN_IF_ERROR(CheckBranches(module, *module.Find(name), in_branch || node.op == Op::kCase));
    }
  }
  return {};
}

Status CheckCollectives(const Module& module) {
  const int64_t world = WorldSize(module);
  bool any = false;
  for (const Function& function : module.functions) {
    for (const Node& node : function.nodes) {
      if (!IsCollective(node.op)) continue;
      any = true;
      const auto ranks = static_cast<int64_t>(node.Ints("groups").size());
      if (ranks == world) continue;
      return Bad(function, fmt::format("{} is over {} ranks, others are over {}", Describe(node), ranks, world));
    }
  }
  if (!any) return {};
  const Function& entry = module.entry();
  for (const Input& input : entry.inputs) {
    if (input.name != kRankInput) continue;
    if (input.kind == InputKind::kMetadata && entry.TypeOf(input.value) == Type(DType::kI32, {})) continue;
    return Bad(entry, fmt::format("the input '{}' must be a metadata scalar i32", kRankInput));
  }
  return CheckBranches(module, entry, false);
}

}  // namespace

Status Verify(const Module& module) {
  if (module.functions.empty()) return MakeError(ErrorCode::kInvalidArgument, "module", "has no function");
  std::set<std::string> names;
  for (const Function& function : module.functions) {
    if (!names.insert(function.name).second) return Bad(function, "is defined twice");
  }
  std::set<std::string> done;
  for (const Function& function : module.functions) {
    std::vector<std::string> stack;
    DI_RETURN_IF_ERROR(CheckRecursion(module, function, &stack, &done));
  }
  for (const Function& function : module.functions) DI_RETURN_IF_ERROR(CheckFunction(module, function));
  // Only now is every callee's io_map known to be sound.
  for (const Function& function : module.functions) DI_RETURN_IF_ERROR(CheckOverwrites(module, function));
  DI_RETURN_IF_ERROR(CheckLiveCounts(module));
  DI_RETURN_IF_ERROR(CheckCollectives(module));
  return CheckStateViews(module.entry());
}

}  // namespace deepinfer::ir
