// Embedding, norms, rotary position, gated activations.
#include "base/thread_team.h"
#include "cpu/kernels/embedding/embedding.h"
#include "cpu/kernels/glu/glu.h"
#include "cpu/kernels/norm/norm.h"
#include "cpu/kernels/rope/rope.h"
#include "cpu/lower/lower.h"

namespace deepinfer::cpu {
namespace {

// Elements after the first dimension.
int64_t InnerElements(const ir::Type& type) {
  return type.dims.empty() ? 1 : type.NumElements() / std::max<int64_t>(1, type.dims[0].size);
}

class EmbeddingLaunch : public Launch {
 public:
  EmbeddingLaunch(const LowerContext& c, const ir::Node& node, const backend::WeightData& table)
      : node_(node),
        kernels_(*ChooseEmbedding(c.f.TypeOf(node.results[0]).dtype)),
        tokens_(c.f.TypeOf(node.results[0])) {
    kernel = kernels_.name;
    reason = "decodes rows of " + std::string(ToString(table.encoding));
    args_.encoding = table.encoding;
    args_.vocabulary = table.shape[0];
    args_.width = table.shape[1];
    args_.scale = static_cast<float>(node.Float("scale", 1.0));
  }
  void Bind(const Addresses& a) override {
    args_.table = a.Of(node_.operands[0]);
    args_.ids = a.As<const int32_t>(node_.operands[1]);
    args_.out = a.Of(node_.results[0]);
  }
  void Run(const TeamContext& team) const override {
    const Range range = SplitRange(tokens_.Of(team), 1, team.member, team.members);
    kernels_.embedding(args_, range.begin, range.end);
  }

 private:
  ir::Node node_;
  const EmbeddingKernels& kernels_;
  LiveExtent tokens_;
  EmbeddingArgs args_;
};

class NormLaunch : public Launch {
 public:
  NormLaunch(const LowerContext& c, const ir::Node& node)
      : node_(node),
        kernels_(*ChooseNorm(c.isa, c.f.TypeOf(node.operands[0]).dtype, c.numerics)),
        rows_(c.f.TypeOf(node.operands[0])) {
    kernel = kernels_.name;
    const ir::Type& type = c.f.TypeOf(node.operands[0]);
    RmsNormArgs& norm = args_.norm;
    norm.width = type.dims.back().size;
    norm.x_stride = norm.out_stride = norm.width;
    args_.residual_stride = args_.sum_stride = norm.width;
    norm.eps = static_cast<float>(node.Float("eps"));
    norm.offset = static_cast<float>(node.Float("offset"));
    if (type.rank() == 1) {
      rows_ = LiveExtent();  // one row: the only dimension is the one that is normalised
    } else {
      per_row_ = InnerElements(type) / std::max<int64_t>(1, norm.width);
    }
  }
  void Bind(const Addresses& a) override {
    args_.norm.x = a.Of(node_.operands[0]);
    args_.norm.weight = a.As<const float>(node_.operands.back());
    args_.norm.out = a.Of(node_.results.back());
    if (node_.op == ir::Op::kAddRmsNorm) {
      args_.residual = a.Of(node_.operands[1]);
      args_.sum = a.Of(node_.results[0]);
    }
  }
  void Run(const TeamContext& team) const override {
    const Range range = SplitRange(rows_.Of(team) * per_row_, 1, team.member, team.members);
    if (node_.op == ir::Op::kAddRmsNorm) {
      kernels_.add_rms_norm(args_, range.begin, range.end);
    } else {
      kernels_.rms_norm(args_.norm, range.begin, range.end);
    }
  }

 private:
  ir::Node node_;
  const NormKernels& kernels_;
  LiveExtent rows_;
  int64_t per_row_ = 1;  // norms per row of the first dimension: heads
  AddRmsNormArgs args_;
};

class RopeTableLaunch : public Launch {
 public:
  RopeTableLaunch(const LowerContext& c, const ir::Node& node) : node_(node), tokens_(c.f.TypeOf(node.operands[0])) {
    kernel = "rope_table";
    args_.half = c.f.TypeOf(node.operands[1]).dims[0].size;
    args_.mscale = static_cast<float>(node.Float("mscale", 1.0));
  }
  void Bind(const Addresses& a) override {
    args_.positions = a.As<const int32_t>(node_.operands[0]);
    args_.inv_freq = a.As<const float>(node_.operands[1]);
    args_.cos = a.As<float>(node_.results[0]);
    args_.sin = a.As<float>(node_.results[1]);
  }
  void Run(const TeamContext& team) const override {
    const Range range = SplitRange(tokens_.Of(team), 1, team.member, team.members);
    RopeTable(args_, range.begin, range.end);
  }

 private:
  ir::Node node_;
  LiveExtent tokens_;
  RopeTableArgs args_;
};

class RopeLaunch : public Launch {
 public:
  RopeLaunch(const LowerContext& c, const ir::Node& node)
      : node_(node),
        kernels_(*ChooseRope(c.isa, c.f.TypeOf(node.operands[0]).dtype)),
        tokens_(c.f.TypeOf(node.operands[0])) {
    kernel = kernels_.name;
    const ir::Type& x = c.f.TypeOf(node.operands[0]);
    args_.heads = x.dims[1].size;
    args_.head_size = x.dims[2].size;
    args_.x_stride = args_.out_stride = args_.heads * args_.head_size;
    args_.half = c.f.TypeOf(node.operands[1]).dims[1].size;
    args_.interleaved = node.Int("interleaved") != 0;
  }
  void Bind(const Addresses& a) override {
    args_.x = a.Of(node_.operands[0]);
    args_.cos = a.As<const float>(node_.operands[1]);
    args_.sin = a.As<const float>(node_.operands[2]);
    args_.out = a.Of(node_.results[0]);
  }
  void Run(const TeamContext& team) const override {
    const Range range = SplitRange(tokens_.Of(team), 1, team.member, team.members);
    kernels_.rope(args_, range.begin, range.end);
  }

 private:
  ir::Node node_;
  const RopeKernels& kernels_;
  LiveExtent tokens_;
  RopeArgs args_;
};

class GluLaunch : public Launch {
 public:
  GluLaunch(const LowerContext& c, const ir::Node& node) : node_(node), rows_(c.f.TypeOf(node.operands[0])) {
    const GluKernels& kernels = *ChooseGlu(c.isa, c.f.TypeOf(node.operands[0]).dtype, c.numerics);
    run_ = node.Str("activation") == "silu" ? kernels.silu : kernels.gelu_tanh;
    kernel = kernels.name;
    args_.width = InnerElements(c.f.TypeOf(node.operands[0]));
    args_.gate_stride = args_.up_stride = args_.out_stride = args_.width;
  }
  void Bind(const Addresses& a) override {
    args_.gate = a.Of(node_.operands[0]);
    args_.up = a.Of(node_.operands[1]);
    args_.out = a.Of(node_.results[0]);
  }
  void Run(const TeamContext& team) const override {
    const Range range = SplitRange(rows_.Of(team), 1, team.member, team.members);
    run_(args_, range.begin, range.end);
  }

 private:
  ir::Node node_;
  LiveExtent rows_;
  void (*run_)(const GluArgs&, int64_t, int64_t) = nullptr;
  GluArgs args_;
};

}  // namespace

LaunchResult LowerEmbedding(const LowerContext& c, const ir::Node& node) {
  const ir::Input* input = c.f.FindInput(node.operands[0]);
  if (input == nullptr || input->kind != ir::InputKind::kWeight) {
    return MakeError(ErrorCode::kUnsupported, "embedding", "its table is not a weight of the step");
  }
  DI_ASSIGN_OR_RETURN(const backend::WeightData* table, c.weights->Source(input->name));
  return std::make_unique<EmbeddingLaunch>(c, node, *table);
}

LaunchResult LowerNorm(const LowerContext& c, const ir::Node& node) {
  return std::make_unique<NormLaunch>(c, node);
}

LaunchResult LowerRopeTable(const LowerContext& c, const ir::Node& node) {
  return std::make_unique<RopeTableLaunch>(c, node);
}

LaunchResult LowerRope(const LowerContext& c, const ir::Node& node) {
  return std::make_unique<RopeLaunch>(c, node);
}

LaunchResult LowerGlu(const LowerContext& c, const ir::Node& node) {
  return std::make_unique<GluLaunch>(c, node);
}

}  // namespace deepinfer::cpu
