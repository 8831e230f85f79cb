// Calls, choices and custom calls. Functions other than the step take the live counts as one more argument.
#include <fmt/format.h>

#include "pjrt/lower.h"
#include "pjrt/mlir_text.h"
#include "pjrt/stablehlo.h"

namespace deepinfer::pjrt {

Vals LowerCall(const LowerContext& c, const std::string& callee, size_t first_operand) {
  Vals operands(c.v.begin() + static_cast<std::ptrdiff_t>(first_operand), c.v.end());
  if (c.e.live_counts() != nullptr) operands.push_back(*c.e.live_counts());
  return c.e.EmitAll("func.call", operands, c.types, "callee = " + FunctionSymbol(callee));
}

// An index outside the list takes the last branch, here as there.
Vals LowerCase(const LowerContext& c) {
  std::vector<std::string> regions;
  for (const std::string& branch : c.node.Strs("branches")) {
    regions.push_back(c.e.Region({}, [&](const Vals&) { return LowerCall(c, branch, 1); }));
  }
  return c.e.EmitAll("stablehlo.case", {c.v[0]}, c.types, "", regions);
}

Vals LowerCustomCall(const LowerContext& c) {
  const std::vector<int64_t> pairs = c.node.Ints("alias_outputs");
  std::string aliases;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const std::string index = c.types.size() == 1 ? "" : std::to_string(pairs[i]);
    aliases += fmt::format(
        "{}#stablehlo.output_operand_alias<output_tuple_indices = [{}], operand_index = {}, operand_tuple_indices = "
        "[]>",
        i > 0 ? ", " : "", index, pairs[i + 1]);
  }
  return c.e.EmitAll("stablehlo.custom_call", c.v, c.types,
                     fmt::format("api_version = 2 : i32, backend_config = {}, call_target_name = {}, has_side_effect = "
                                 "false, output_operand_aliases = [{}]",
                                 MlirString(c.node.Str("backend_config")), MlirString(c.node.Str("target")), aliases));
}

}  // namespace deepinfer::pjrt
