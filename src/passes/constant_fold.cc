// Primitives whose operands are all constants become constants, computed by the interpreter.
#include <map>

#include "interp/interp.h"
#include "ir/collective.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace deepinfer::passes {
namespace {

// Larger results cost more as text in the cache than as a node at run time.
constexpr int64_t kMaxFoldedBytes = 16 * 1024;

ir::Bytes Expand(const ir::Type& type, const ir::Bytes& value) {
  const size_t size = SizeOf(type.dtype);
  if (value.size() == static_cast<size_t>(type.Bytes())) return value;
  ir::Bytes full;
  full.reserve(static_cast<size_t>(type.Bytes()));
  for (int64_t i = 0; i < type.NumElements(); ++i) full.insert(full.end(), value.begin(), value.begin() + size);
  return full;
}

// One element if all are equal, else all.
ir::Bytes Compress(const ir::Type& type, ir::Bytes value) {
  const size_t size = SizeOf(type.dtype);
  for (size_t i = size; i < value.size(); ++i) {
    if (value[i] != value[i - size]) return value;
  }
  value.resize(std::min(size, value.size()));
  return value;
}

bool Foldable(const ir::Function& f, const ir::Node& node, const std::map<ir::ValueId, ir::Bytes>& constants) {
  const ir::OpInfo& info = InfoOf(node.op);
  if (info.kind != ir::OpKind::kPrimitive || node.op == ir::Op::kConstant || node.results.size() != 1) return false;
  if (ir::IsCollective(node.op)) return false;
  if (node.operands.empty()) return false;  // an iota is shorter than its values
  if (f.TypeOf(node.results[0]).Bytes() > kMaxFoldedBytes) return false;
  for (const ir::ValueId operand : node.operands) {
    if (constants.count(operand) == 0 || f.TypeOf(operand).Bytes() > kMaxFoldedBytes) return false;
  }
  return true;
}

Result<ir::Bytes> Evaluate(const ir::Function& f, const ir::Node& node,
                           const std::map<ir::ValueId, ir::Bytes>& constants) {
  DI_ASSIGN_OR_RETURN(auto prepared, interp::PrepareNode(f, node));
  std::vector<ir::Bytes> operands;
  std::vector<const void*> pointers;
  for (const ir::ValueId operand : node.operands) {
    operands.push_back(Expand(f.TypeOf(operand), constants.at(operand)));
  }
  for (const ir::Bytes& operand : operands) pointers.push_back(operand.data());
  const ir::Type& type = f.TypeOf(node.results[0]);
  ir::Bytes result(static_cast<size_t>(type.Bytes()));
  void* results[] = {result.data()};
  ir::LiveCounts live;
  live.count.fill(int64_t{1} << 40);  // constants are whole
  prepared->Run(pointers.data(), results, live, nullptr);
  return Compress(type, std::move(result));
}

// A broadcast of a splat is a splat of another shape: worth folding whatever its size.
bool IsSplatBroadcast(const ir::Function& f, const ir::Node& node, const std::map<ir::ValueId, ir::Bytes>& constants) {
  const bool moves = node.op == ir::Op::kBroadcastInDim || node.op == ir::Op::kReshape;
  if (!moves || constants.count(node.operands[0]) == 0) return false;
  return constants.at(node.operands[0]).size() == SizeOf(f.TypeOf(node.operands[0]).dtype);
}

}  // namespace

Result<bool> ConstantFold(ir::Module* module, const PassContext& /*context*/) {
  bool changed = false;
  for (ir::Function& f : module->functions) {
    std::map<ir::ValueId, ir::Bytes> constants;
    for (ir::Node& node : f.nodes) {
      if (node.op == ir::Op::kConstant) {
        constants[node.results[0]] = std::get<ir::Bytes>(node.attrs.at("value"));
        continue;
      }
      ir::Bytes value;
      if (IsSplatBroadcast(f, node, constants)) {
        value = constants.at(node.operands[0]);
      } else if (Foldable(f, node, constants)) {
        DI_ASSIGN_OR_RETURN(value, Evaluate(f, node, constants));
      } else {
        continue;
      }
      node = {ir::Op::kConstant, {}, node.results, {{"value", value}}};
      constants[node.results[0]] = std::move(value);
      changed = true;
    }
  }
  return changed;
}

}  // namespace deepinfer::passes
