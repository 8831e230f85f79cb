// gated_linear: every member computes its columns of gate, up and their product.
#include "base/thread_team.h"
#include "cpu/lower/gated_product.h"

namespace deepinfer::cpu {
namespace {

class GatedLinearLaunch : public Launch {
 public:
  Status Init(const LowerContext& c, const ir::Node& node) {
    node_ = node;
    const ir::Type& x = c.f.TypeOf(node.operands[0]);
    const ir::Type& y = c.f.TypeOf(node.results[0]);
    rows_ = LiveExtent(x);
    n_ = y.dims[1].size;
    DI_RETURN_IF_ERROR(product_.Init(c, node.operands[1], node.operands[2], n_, x.dims[1].size, x.dtype, y.dtype,
                                     node.Str("activation")));
    kernel = "gated_" + product_.kernel;
    reason = product_.reason;
    return {};
  }

  void Bind(const Addresses& a) override {
    args_.x = a.As<const std::byte>(node_.operands[0]);
    args_.y = a.As<std::byte>(node_.results[0]);
    for (size_t i = 3; i < node_.operands.size(); ++i) args_.biases[i - 3] = a.As<const float>(node_.operands[i]);
  }

  void Run(const TeamContext& team) const override {
    const Range range = SplitRange(n_, kLinearGrain, team.member, team.members);
    GatedProduct::Args args = args_;
    args.rows = rows_.Of(team);
    args.scratch = team.scratch;
    product_.Run(args, range.begin, range.end);
  }

  int64_t ScratchBytes() const override { return product_.ScratchBytes(rows_.size); }

 private:
  ir::Node node_;
  LiveExtent rows_;
  int64_t n_ = 0;
  GatedProduct product_;
  GatedProduct::Args args_;
};

}  // namespace

LaunchResult LowerGatedLinear(const LowerContext& c, const ir::Node& node) {
  auto launch = std::make_unique<GatedLinearLaunch>();
  DI_RETURN_IF_ERROR(launch->Init(c, node));
  return launch;
}

}  // namespace deepinfer::cpu
