// Primitives: a few with kernels that the whole team shares, all others by the interpreter on one member.
#include "base/thread_team.h"
#include "cpu/kernels/copy/copy.h"
#include "cpu/kernels/elementwise/elementwise.h"
#include "cpu/lower/lower.h"
#include "interp/interp.h"

namespace deepinfer::cpu {
namespace {

int64_t InnerElements(const ir::Type& type) {
  return type.dims.empty() ? 1 : type.NumElements() / std::max<int64_t>(1, type.dims[0].size);
}

// Below this many elements a member does all: splitting would only add cache traffic.
constexpr int64_t kElementGrain = 1024;

class ElementwiseLaunch : public Launch {
 public:
  ElementwiseLaunch(const LowerContext& c, const ir::Node& node)
      : node_(node), rows_(c.f.TypeOf(node.results[0])), inner_(InnerElements(c.f.TypeOf(node.results[0]))) {}
  BinaryFn binary = nullptr;
  ConvertFn convert = nullptr;

  void Bind(const Addresses& a) override {
    first_ = a.Of(node_.operands[0]);
    second_ = node_.operands.size() > 1 ? a.Of(node_.operands[1]) : nullptr;
    out_ = a.Of(node_.results[0]);
  }
  void Run(const TeamContext& team) const override {
    const Range range = SplitRange(rows_.Of(team) * inner_, kElementGrain, team.member, team.members);
    if (binary != nullptr) {
      binary(first_, second_, out_, range.begin, range.end);
    } else {
      convert(first_, out_, range.begin, range.end);
    }
  }

 private:
  ir::Node node_;
  LiveExtent rows_;
  int64_t inner_;
  const void* first_ = nullptr;
  const void* second_ = nullptr;
  void* out_ = nullptr;
};

class GatherLaunch : public Launch {
 public:
  GatherLaunch(const LowerContext& c, const ir::Node& node) : node_(node), rows_(c.f.TypeOf(node.results[0])) {
    kernel = "gather_rows";
    const ir::Type& table = c.f.TypeOf(node.operands[0]);
    args_.num_rows = table.dims[0].size;
    args_.row_bytes = InnerElements(table) * static_cast<int64_t>(SizeOf(table.dtype));
    args_.x_stride_bytes = args_.out_stride_bytes = args_.row_bytes;
  }
  void Bind(const Addresses& a) override {
    args_.x = a.Of(node_.operands[0]);
    args_.index = a.As<const int32_t>(node_.operands[1]);
    args_.out = a.Of(node_.results[0]);
  }
  void Run(const TeamContext& team) const override {
    const Range range = SplitRange(rows_.Of(team), 1, team.member, team.members);
    GatherRows(args_, range.begin, range.end);
  }

 private:
  ir::Node node_;
  LiveExtent rows_;
  GatherRowsArgs args_;
};

class InterpreterLaunch : public Launch {
 public:
  InterpreterLaunch(const ir::Node& node, std::unique_ptr<interp::PreparedNode> prepared)
      : node_(node), prepared_(std::move(prepared)), operands_(node.operands.size()), results_(node.results.size()) {
    kernel = std::string("interpreter.") + ToString(node.op);
    reason = "last of the list";
  }
  void Bind(const Addresses& a) override {
    for (size_t i = 0; i < operands_.size(); ++i) operands_[i] = a.Of(node_.operands[i]);
    for (size_t i = 0; i < results_.size(); ++i) results_[i] = a.Of(node_.results[i]);
  }
  void Run(const TeamContext& team) const override {
    if (team.member == 0) prepared_->Run(operands_.data(), results_.data(), team.live, nullptr);
  }

 private:
  ir::Node node_;
  std::unique_ptr<interp::PreparedNode> prepared_;
  std::vector<const void*> operands_;
  std::vector<void*> results_;
};

// Work on integers is metadata: a few numbers per step.
std::string WithoutKernel(const ir::Function& f, const ir::Node& node) {
  bool floats = false;
  std::string text = ToString(node.op);
  for (const ir::ValueId value : node.operands) {
    const ir::Type& type = f.TypeOf(value);
    floats = floats || type.encoding.has_value() || IsFloat(type.dtype);
    text += (value == node.operands[0] ? " " : ", ") + ToString(type);
  }
  return floats ? text : "";
}

BinaryOp BinaryOpOf(ir::Op op) {
  switch (op) {
    case ir::Op::kSub:
      return BinaryOp::kSub;
    case ir::Op::kMul:
      return BinaryOp::kMul;
    case ir::Op::kDiv:
      return BinaryOp::kDiv;
    case ir::Op::kMax:
      return BinaryOp::kMax;
    case ir::Op::kMin:
      return BinaryOp::kMin;
    default:
      return BinaryOp::kAdd;
  }
}

}  // namespace

LaunchResult LowerBinary(const LowerContext& c, const ir::Node& node) {
  const BinaryKernel kernel = ChooseBinary(c.isa, BinaryOpOf(node.op), c.f.TypeOf(node.operands[0]).dtype);
  if (kernel.run == nullptr) return nullptr;
  auto launch = std::make_unique<ElementwiseLaunch>(c, node);
  launch->binary = kernel.run;
  launch->kernel = kernel.name;
  return launch;
}

LaunchResult LowerConvert(const LowerContext& c, const ir::Node& node) {
  const ConvertKernel kernel =
      ChooseConvert(c.isa, c.f.TypeOf(node.operands[0]).dtype, c.f.TypeOf(node.results[0]).dtype);
  if (kernel.run == nullptr) return nullptr;
  auto launch = std::make_unique<ElementwiseLaunch>(c, node);
  launch->convert = kernel.run;
  launch->kernel = kernel.name;
  return launch;
}

LaunchResult LowerTake(const LowerContext& c, const ir::Node& node) {
  const bool empty = c.f.TypeOf(node.operands[0]).dims[0].size == 0;  // every index is out of range: zeros
  if (empty || c.f.TypeOf(node.operands[1]).rank() != 1) return nullptr;
  return std::make_unique<GatherLaunch>(c, node);
}

LaunchResult LowerPrimitive(const LowerContext& c, const ir::Node& node) {
  DI_ASSIGN_OR_RETURN(auto prepared, interp::PrepareNode(c.f, node));
  auto launch = std::make_unique<InterpreterLaunch>(node, std::move(prepared));
  launch->without_kernel = WithoutKernel(c.f, node);
  return launch;
}

}  // namespace deepinfer::cpu
