// call, break, case and custom_call.
#include "ir/infer_internal.h"

namespace deepinfer::ir::internal {
namespace {

// Checks the operands from `first` on against the callee's inputs and returns its result types.
Result<Types> CalleeTypes(const InferContext& c, const std::string& name, size_t first) {
  const Function* callee = c.module.Find(name);
  if (callee == nullptr) return TypeError(c, "no function named '{}'", name);
  if (callee->inputs.size() + first != c.operands.size()) {
    return TypeError(c, "'{}' takes {} operands, got {}", name, callee->inputs.size(), c.operands.size() - first);
  }
  for (size_t i = 0; i < callee->inputs.size(); ++i) {
    const Type& want = callee->TypeOf(callee->inputs[i].value);
    if (want != c.operands[first + i]) {
      return TypeError(c, "operand {} of '{}' must be {}, got {}", i, name, ToString(want),
                       ToString(c.operands[first + i]));
    }
  }
  Types results;
  for (const Output& output : callee->outputs) results.push_back(callee->TypeOf(output.value));
  return results;
}

Result<Types> InferCase(const InferContext& c) {
  if (c.operands[0] != Type(DType::kI32, {})) {
    return TypeError(c, "the index must be i32[], got {}", ToString(c.operands[0]));
  }
  const std::vector<std::string> branches = c.node.Strs("branches");
  if (branches.empty()) return TypeError(c, "needs at least one branch");
  DI_ASSIGN_OR_RETURN(Types results, CalleeTypes(c, branches[0], 1));
  for (const std::string& branch : branches) {
    DI_ASSIGN_OR_RETURN(const Types others, CalleeTypes(c, branch, 1));
    if (others != results) return TypeError(c, "branches '{}' and '{}' return different types", branches[0], branch);
  }
  return results;
}

// alias_outputs lists pairs (output, operand): the output is written in the operand's place.
Result<Types> InferCustomCall(const InferContext& c) {
  if (c.node.Str("target").empty()) return TypeError(c, "needs a target");
  const std::vector<int64_t> pairs = c.node.Ints("alias_outputs");
  if (pairs.size() % 2 != 0) return TypeError(c, "alias_outputs must list pairs of output and operand");
  for (size_t i = 0; i < pairs.size(); i += 2) {
    const int64_t output = pairs[i];
    const int64_t operand = pairs[i + 1];
    if (output < 0 || output >= static_cast<int64_t>(c.declared.size()) || operand < 0 ||
        operand >= static_cast<int64_t>(c.operands.size())) {
      return TypeError(c, "'{}': alias of output {} and operand {} is out of range", c.node.Str("target"), output,
                       operand);
    }
    if (c.declared[output] != c.operands[operand]) {
      return TypeError(c, "'{}': output {} is {} but its aliased operand {} is {}", c.node.Str("target"), output,
                       ToString(c.declared[output]), operand, ToString(c.operands[operand]));
    }
  }
  return c.declared;
}

}  // namespace

Result<Types> InferStructural(const InferContext& c) {
  switch (c.node.op) {
    case Op::kCall:
      return CalleeTypes(c, c.node.Str("callee"), 0);
    case Op::kBreak:
      if (c.node.Str("name").empty()) return TypeError(c, "needs a name");
      return CalleeTypes(c, c.node.Str("body"), 0);
    case Op::kCase:
      return InferCase(c);
    default:
      return InferCustomCall(c);
  }
}

}  // namespace deepinfer::ir::internal
