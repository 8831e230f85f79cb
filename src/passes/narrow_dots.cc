// A dot_general of two bf16 values that were widened to f32 reads the bf16 values: a product of two of them is exact in
// f32, so only the order of the f32 sums may differ. What is read stays half as long, and a matrix unit has its type.
#include <vector>

#include "passes/pass.h"

namespace deepinfer::passes {
namespace {

// By value: the bf16 value that it is the f32 of, or kNoValue.
std::vector<ir::ValueId> WidenedFrom(const ir::Function& f) {
  std::vector<ir::ValueId> sources(f.types.size(), ir::kNoValue);
  for (const ir::Node& node : f.nodes) {
    if (node.op != ir::Op::kConvert || f.TypeOf(node.results[0]).dtype != DType::kF32) continue;
    const ir::Type& from = f.TypeOf(node.operands[0]);
    if (from.dtype == DType::kBF16 && !from.encoding) sources[node.results[0]] = node.operands[0];
  }
  return sources;
}

}  // namespace

Result<bool> NarrowDots(ir::Module* module, const PassContext& /*context*/) {
  bool changed = false;
  for (ir::Function& f : module->functions) {
    const std::vector<ir::ValueId> sources = WidenedFrom(f);
    for (ir::Node& node : f.nodes) {
      if (node.op != ir::Op::kDotGeneral) continue;
      const ir::ValueId lhs = sources[node.operands[0]];
      const ir::ValueId rhs = sources[node.operands[1]];
      if (lhs == ir::kNoValue || rhs == ir::kNoValue) continue;
      node.operands = {lhs, rhs};
      node.attrs["dtype"] = std::string(ToString(f.TypeOf(node.results[0]).dtype));
      changed = true;
    }
  }
  return changed;
}

}  // namespace deepinfer::passes
