// linear and multi_linear. Weights of one encoding are stacked into one packed weight; a group with mixed encodings
// (Q4_K_M stores v in another type than q and k) becomes several products of one launch. Where a weight's rows have
// their inputs in another order, every member brings x into it first: for a decode step that is a few kilobytes.
#include "cpu/kernels/linear/linear.h"

#include "base/thread_team.h"
#include "cpu/lower/linear_inputs.h"
#include "cpu/lower/lower.h"

namespace deepinfer::cpu {
namespace {

struct Column {  // one weight of the group
  ir::ValueId bias = ir::kNoValue;
  ir::ValueId result = ir::kNoValue;
  int64_t begin = 0;
  int64_t end = 0;
};

struct Product {  // weights of one encoding and order of inputs
  const LinearKernel* kernel = nullptr;
  InputOrder order;
  const void* packed = nullptr;
  int64_t n = 0;
  std::vector<std::string> names;
  std::vector<Column> columns;
  std::vector<LinearOutput> outputs;
};

class LinearLaunch : public Launch {
 public:
  void Bind(const Addresses& addresses) override {
    x_ = addresses.Of(input_);
    for (Product& product : products_) {
      for (size_t i = 0; i < product.columns.size(); ++i) {
        const Column& column = product.columns[i];
        LinearOutput& output = product.outputs[i];
        output.col_begin = column.begin;
        output.col_end = column.end;
        output.y = addresses.Of(column.result);
        output.ldy = column.end - column.begin;
        output.bias = column.bias == ir::kNoValue ? nullptr : addresses.As<const float>(column.bias);
      }
    }
  }

  void Run(const TeamContext& team) const override {
    const int64_t m = rows_.Of(team);
    if (m == 0) return;
    for (const Product& product : products_) {
      LinearArgs args;
      args.x = x_;
      args.ldx = k_;
      args.m = m;
      args.packed = product.packed;
      args.n = product.n;
      args.k = k_;
      args.y_dtype = y_dtype_;
      args.outputs = product.outputs.data();
      args.num_outputs = static_cast<int>(product.outputs.size());
      args.scratch = team.scratch;
      if (product.order != nullptr) {
        args.x = team.scratch;
        args.scratch = team.scratch + OrderedBytes(x_dtype_, rows_.size, k_);
        OrderInputs(*product.order, x_dtype_, x_, m, team.scratch);
      }
      const Range range = SplitRange(product.n, kLinearGrain, team.member, team.members);
      if (range.begin < range.end) RunLinear(*product.kernel, args, range.begin, range.end);
    }
  }

  int64_t ScratchBytes() const override {
    size_t bytes = 0;
    for (const Product& product : products_) {
      const int64_t ordered = product.order == nullptr ? 0 : OrderedBytes(x_dtype_, rows_.size, k_);
      bytes = std::max(bytes, static_cast<size_t>(ordered) + LinearScratchBytes(*product.kernel, rows_.size, k_));
    }
    return static_cast<int64_t>(bytes);
  }

  Status Init(const LowerContext& c, const ir::Node& node);

 private:
  Product* ProductFor(Encoding encoding, const InputOrder& order, const LowerContext& c);

  ir::ValueId input_ = ir::kNoValue;
  LiveExtent rows_;
  int64_t k_ = 0;
  DType x_dtype_ = DType::kF32;
  DType y_dtype_ = DType::kF32;
  std::vector<Product> products_;
  const void* x_ = nullptr;
};

Product* LinearLaunch::ProductFor(Encoding encoding, const InputOrder& order, const LowerContext& c) {
  for (Product& product : products_) {
    if (product.kernel->encoding == encoding && SameOrder(product.order, order)) return &product;
  }
  const LinearChoice choice = ChooseLinear(encoding, x_dtype_, c.isa, c.numerics);
  if (choice.kernel == nullptr) return nullptr;
  kernel += (kernel.empty() ? "" : " + ") + std::string(choice.kernel->name);
  reason += (reason.empty() ? "" : " + ") + choice.reason;
  products_.emplace_back().kernel = choice.kernel;
  products_.back().order = order;
  return &products_.back();
}

Status LinearLaunch::Init(const LowerContext& c, const ir::Node& node) {
  const size_t weights = node.op == ir::Op::kLinear ? 1 : static_cast<size_t>(node.Int("weights"));
  const ir::Type& x = c.f.TypeOf(node.operands[0]);
  input_ = node.operands[0];
  rows_ = LiveExtent(x);
  k_ = x.dims[1].size;
  x_dtype_ = x.dtype;
  y_dtype_ = c.f.TypeOf(node.results[0]).dtype;
  for (size_t i = 0; i < weights; ++i) {
    const ir::ValueId weight = node.operands[1 + i];
    const ir::Type& type = c.f.TypeOf(weight);
    const ir::Input* input = c.f.FindInput(weight);
    if (input == nullptr || input->kind != ir::InputKind::kWeight) {
      return MakeError(ErrorCode::kUnsupported, "linear", "{} is not a weight of the step", ToString(type));
    }
    DI_ASSIGN_OR_RETURN(const backend::WeightData* source, c.weights->Source(input->name));
    Product* product = ProductFor(EncodingOf(type), source->order, c);
    if (product == nullptr) {
      return MakeError(ErrorCode::kUnsupported, "--numerics", "{} has no kernel for {} with activations in {}",
                       ToString(c.numerics), ToString(EncodingOf(type)), ToString(x_dtype_));
    }
    Column column;
    column.begin = product->n;
    column.end = product->n += type.dims[0].size;
    column.result = node.results[i];
    if (node.operands.size() > 1 + weights) column.bias = node.operands[1 + weights + i];
    product->columns.push_back(column);
    product->names.push_back(input->name);
  }
  for (Product& product : products_) {
    product.outputs.resize(product.columns.size());
    DI_ASSIGN_OR_RETURN(product.packed, c.weights->Packed(product.names));
  }
  return {};
}

}  // namespace

LaunchResult LowerLinear(const LowerContext& c, const ir::Node& node) {
  auto launch = std::make_unique<LinearLaunch>();
  DI_RETURN_IF_ERROR(launch->Init(c, node));
  return launch;
}

}  // namespace deepinfer::cpu
