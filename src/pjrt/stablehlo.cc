#include "pjrt/stablehlo.h"

#include <fmt/format.h>

#include "ir/collective.h"
#include "pjrt/lower.h"
#include "pjrt/mlir_text.h"

namespace deepinfer::pjrt {
namespace {

class FunctionPrinter {
 public:
  FunctionPrinter(const ir::Module& module, const ir::Function& function, const PrintOptions& options)
      : module_(module), f_(function), options_(options), entry_(&function == &module.functions[0]), e_(/*indent=*/4) {}

  Result<std::string> Print() {
    values_.resize(f_.types.size());
    DI_ASSIGN_OR_RETURN(const std::string arguments, Arguments());
    for (const ir::Node& node : f_.nodes) DI_RETURN_IF_ERROR(PrintNode(node));
    Vals outputs;
    std::string results;
    for (const ir::Output& output : f_.outputs) {
      outputs.push_back(values_[output.value]);
      results += (results.empty() ? "" : ", ") + MlirType(f_.TypeOf(output.value));
    }
    e_.Return("func.return", outputs);
    return fmt::format("  func.func {} {}({}) -> ({}) {{\n{}  }}\n", entry_ ? "public" : "private",
                       entry_ ? "@main" : FunctionSymbol(f_.name), arguments, results, e_.Take());
  }

 private:
  Result<std::string> Arguments() {
    std::string text;
    for (size_t i = 0; i < f_.inputs.size(); ++i) {
      const ir::Type& type = f_.TypeOf(f_.inputs[i].value);
      if (type.encoding) {
        return MakeError(ErrorCode::kUnsupported, fmt::format("input '{}'", f_.inputs[i].name),
                         "{} has no StableHLO type; convert the weight at load", ToString(type));
      }
      const Val value{fmt::format("%arg{}", i), type};
      text += fmt::format("{}{}: {}{}", i > 0 ? ", " : "", value.name, MlirType(type), Attributes(i));
      values_[f_.inputs[i].value] = value;
    }
    if (module_.live_counts == ir::kNoValue) return text;
    if (entry_) {
      e_.SetLiveCounts(values_[module_.live_counts]);
    } else {
      const Val live{fmt::format("%arg{}", f_.inputs.size()), ir::Type(DType::kI32, {ir::kNumTags})};
      text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", live.name, MlirType(live.type));
      e_.SetLiveCounts(live);
    }
    return text;
  }

  std::string Attributes(size_t input) const {
    const auto aliases = module_.io_map.find(f_.name);
    if (!entry_ || aliases == module_.io_map.end()) return "";
    for (const ir::Alias& alias : aliases->second) {
      if (alias.input == static_cast<int>(input))
        return fmt::format(" {{tf.aliasing_output = {} : i32}}", alias.output);
    }
    return "";
  }

  Status PrintNode(const ir::Node& node) {
    Vals operands;
    for (const ir::ValueId operand : node.operands) operands.push_back(values_[operand]);
    std::vector<ir::Type> types;
    types.reserve(node.results.size());
    for (const ir::ValueId result : node.results) types.push_back(f_.TypeOf(result));
    DI_ASSIGN_OR_RETURN(const Vals results, Lower({e_, node, operands, types, options_}));
    for (size_t i = 0; i < node.results.size(); ++i) values_[node.results[i]] = {results[i].name, types[i]};
    return {};
  }

  const ir::Module& module_;
  const ir::Function& f_;
  const PrintOptions& options_;
  const bool entry_;
  Emitter e_;
  Vals values_;  // by ValueId
};

}  // namespace

std::string FunctionSymbol(const std::string& name) {
  return MlirSymbol("f." + name);
}

Result<std::string> PrintStableHlo(const ir::Module& module, const PrintOptions& options) {
  if (module.functions.empty()) return MakeError(ErrorCode::kInvalidArgument, "module", "has no function");
  std::string text =
      fmt::format("module {} attributes {{mhlo.num_partitions = 1 : i32, mhlo.num_replicas = {} : i32}} {{\n",
                  MlirSymbol(module.entry().name), options.ranks > 0 ? options.ranks : ir::WorldSize(module));
  for (const ir::Function& function : module.functions) {
    DI_ASSIGN_OR_RETURN(const std::string printed, FunctionPrinter(module, function, options).Print());
    text += printed;
  }
  return text + "}\n";
}

}  // namespace deepinfer::pjrt
