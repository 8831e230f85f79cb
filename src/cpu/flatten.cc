#include "cpu/flatten.h"

#include "ir/in_place.h"
#include "passes/rewrite.h"

namespace deepinfer::cpu {
namespace {

struct Predicate {
  ir::ValueId value = ir::kNoValue;
  int64_t branch = 0;
  int64_t branches = 0;
};

class Flattener {
 public:
  Flattener(const ir::Module& module, const backend::CompileOptions& options) : module_(module), options_(options) {
    step_.f = module.entry();
    step_.f.nodes.clear();
    step_.parts.emplace_back();
  }

  Result<FlatStep> Run() {
    passes::Substitution replaced(step_.f.types.size());
    DI_RETURN_IF_ERROR(Emit(module_.entry().nodes, Predicate(), &replaced));
    for (ir::Output& output : step_.f.outputs) output.value = replaced(output.value);
    step_.aliases = AliasesOf(step_.f.name);
    for (ir::ValueId value = 0; value < static_cast<ir::ValueId>(step_.f.types.size()); ++value) {
      step_.roots.push_back(Root(value));
    }
    return std::move(step_);
  }

 private:
  ir::ValueId Root(ir::ValueId value) const {
    while (value < static_cast<ir::ValueId>(shares_.size()) && shares_[value] != ir::kNoValue) value = shares_[value];
    return value;
  }

  void Share(ir::ValueId value, ir::ValueId with) {
    if (shares_.size() < step_.f.types.size()) shares_.resize(step_.f.types.size(), ir::kNoValue);
    if (Root(with) != value) shares_[value] = Root(with);
  }

  // Splices a callee's body in and binds `results` to its outputs.
  Status EmitCallee(const std::string& name, const std::vector<ir::ValueId>& operands,
                    const std::vector<ir::ValueId>& results, const Predicate& predicate,
                    passes::Substitution* replaced) {
    std::vector<ir::Node> body;
    const std::vector<ir::ValueId> outputs = passes::Splice(*module_.Find(name), operands, &step_.f, &body);
    passes::Substitution inner(step_.f.types.size());
    DI_RETURN_IF_ERROR(Emit(std::move(body), predicate, &inner));
    const std::vector<ir::Alias> aliases = AliasesOf(name);
    for (size_t i = 0; i < results.size(); ++i) {
      const ir::ValueId output = inner(outputs[i]);
      if (const ir::ValueId state = StateOf(aliases, i, operands); state != ir::kNoValue) {
        replaced->Set(results[i], InPlaceOf(state, output, predicate));
      } else {
        replaced->Set(results[i], IsState(output) ? Copy(output, predicate) : output);
      }
    }
    return {};
  }

  // Each branch ends with copies into the result of the case; states are written in place and need none.
  Status EmitCase(const ir::Node& node, const Predicate& outer) {
    if (outer.value != ir::kNoValue) return MakeError(ErrorCode::kUnsupported, "case", "a case inside a case");
    const std::vector<std::string> branches = node.Strs("branches");
    const std::vector<ir::ValueId> operands(node.operands.begin() + 1, node.operands.end());
    for (size_t branch = 0; branch < branches.size(); ++branch) {
      const Predicate predicate{node.operands[0], static_cast<int64_t>(branch), static_cast<int64_t>(branches.size())};
      std::vector<ir::Node> body;
      const std::vector<ir::ValueId> outputs =
          passes::Splice(*module_.Find(branches[branch]), operands, &step_.f, &body);
      passes::Substitution inner(step_.f.types.size());
      DI_RETURN_IF_ERROR(Emit(std::move(body), predicate, &inner));
      const std::vector<ir::Alias> aliases = AliasesOf(branches[branch]);
      for (size_t i = 0; i < outputs.size(); ++i) {
        const ir::ValueId from = inner(outputs[i]);
        if (const ir::ValueId state = StateOf(aliases, i, operands); state != ir::kNoValue) {
          InPlaceOf(state, from, predicate);
          Share(node.results[i], state);
        } else {
          Append({ir::Op::kConvert, {from}, {node.results[i]}, {}}, predicate);
        }
      }
    }
    return {};
  }

  std::vector<ir::Alias> AliasesOf(const std::string& function) const {
    const auto it = module_.io_map.find(function);
    return it == module_.io_map.end() ? std::vector<ir::Alias>() : it->second;
  }

  // The state among the operands whose new content a callee's output is, or kNoValue.
  ir::ValueId StateOf(const std::vector<ir::Alias>& aliases, size_t output,
                      const std::vector<ir::ValueId>& operands) const {
    for (const ir::Alias& alias : aliases) {
      const bool own = alias.output == static_cast<int>(output);
      if (own && IsState(operands[alias.input])) return operands[alias.input];
    }
    return ir::kNoValue;
  }

  bool IsState(ir::ValueId value) const {
    const ir::Input* input = step_.f.FindInput(Root(value));
    return input != nullptr && input->kind == ir::InputKind::kState;
  }

  ir::ValueId Copy(ir::ValueId from, const Predicate& predicate) {
    const ir::ValueId copy = step_.f.AddValue(step_.f.TypeOf(from));
    Append({ir::Op::kConvert, {from}, {copy}, {}}, predicate);
    return copy;
  }

  // `content` as a value that lies in the state: itself if it was written there.
  ir::ValueId InPlaceOf(ir::ValueId state, ir::ValueId content, const Predicate& predicate) {
    if (Root(content) == Root(state)) return content;
    const ir::ValueId copy = Copy(content, predicate);
    Share(copy, state);
    return copy;
  }

  Status EmitBreak(const ir::Node& node, const Predicate& predicate, passes::Substitution* replaced) {
    if (options_.mode == backend::GraphMode::kFull || predicate.value != ir::kNoValue || in_break_) {
      return EmitCallee(node.Str("body"), node.operands, node.results, predicate, replaced);
    }
    FlatPart part;
    part.is_break = true;
    part.name = node.Str("name");
    if (options_.breaks != nullptr) {
      if (const auto it = options_.breaks->find(part.name); it != options_.breaks->end()) part.host = it->second;
    }
    part.operands = node.operands;
    part.results = node.results;
    if (part.host != nullptr) ShareStates(node, &part);
    step_.parts.push_back(std::move(part));
    if (step_.parts.back().host == nullptr) {
      in_break_ = true;
      DI_RETURN_IF_ERROR(EmitCallee(node.Str("body"), node.operands, node.results, predicate, replaced));
      in_break_ = false;
    }
    step_.parts.emplace_back();
    return {};
  }

  // A host function writes states in place, like the body it stands in for.
  void ShareStates(const ir::Node& node, FlatPart* part) {
    for (const ir::Alias& alias : AliasesOf(node.Str("body"))) {
      ir::ValueId& operand = part->operands[alias.input];
      if (!IsState(operand)) operand = Copy(operand, Predicate());
      Share(node.results[alias.output], operand);
    }
  }

  void Append(ir::Node node, const Predicate& predicate) {
    step_.parts.back().nodes.push_back({std::move(node), predicate.value, predicate.branch, predicate.branches});
  }

  Status Emit(std::vector<ir::Node> nodes, const Predicate& predicate, passes::Substitution* replaced) {
    for (ir::Node& node : nodes) {
      replaced->Apply(&node);
      switch (node.op) {
        case ir::Op::kCall:
          DI_RETURN_IF_ERROR(EmitCallee(node.Str("callee"), node.operands, node.results, predicate, replaced));
          break;
        case ir::Op::kCase:
          DI_RETURN_IF_ERROR(EmitCase(node, predicate));
          break;
        case ir::Op::kBreak:
          DI_RETURN_IF_ERROR(EmitBreak(node, predicate, replaced));
          break;
        case ir::Op::kCustomCall:
          return MakeError(ErrorCode::kUnsupported, "custom_call", "the cpu backend knows no target '{}'",
                           node.Str("target"));
        case ir::Op::kIndexPutInplace:
          return MakeError(ErrorCode::kInternal, "index_put_", "the graph was not functionalized");
        case ir::Op::kReshape:
          if (IsState(node.operands[0])) {
            Append(std::move(node), predicate);
          } else {
            Share(node.results[0], node.operands[0]);
          }
          break;
        default:
          for (const ir::InPlace& in_place : ir::InPlaceOf(node)) {
            ir::ValueId& operand = node.operands[in_place.operand];
            if (!IsState(operand)) operand = Copy(operand, predicate);
            Share(node.results[in_place.result], operand);
          }
          Append(std::move(node), predicate);
      }
    }
    return {};
  }

  const ir::Module& module_;
  const backend::CompileOptions& options_;
  FlatStep step_;
  std::vector<ir::ValueId> shares_;
  bool in_break_ = false;
};

}  // namespace

Result<FlatStep> Flatten(const ir::Module& module, const backend::CompileOptions& options) {
  return Flattener(module, options).Run();
}

}  // namespace deepinfer::cpu
