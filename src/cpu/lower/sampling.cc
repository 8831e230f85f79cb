// Sampling and log-probabilities: rows are split over the team.
#include "ir/sampling.h"

#include "base/thread_team.h"
#include "cpu/kernels/sample/sample.h"
#include "cpu/lower/lower.h"

namespace deepinfer::cpu {
namespace {

class SampleLaunch : public Launch {
 public:
  SampleLaunch(const LowerContext& c, const ir::Node& node)
      : node_(node), kernels_(*ChooseSample(c.isa, c.numerics)), rows_(c.f.TypeOf(node.operands[0])) {
    kernel = kernels_.name;
    args_.vocabulary = args_.logits_stride = c.f.TypeOf(node.operands[0]).dims[1].size;
    args_.places = c.f.TypeOf(node.operands[ir::kSampleAdjustIds]).dims[1].size;
  }
  void Bind(const Addresses& a) override {
    const auto floats = [&](ir::SampleOperand operand) { return a.As<const float>(node_.operands[operand]); };
    const auto ints = [&](ir::SampleOperand operand) { return a.As<const int32_t>(node_.operands[operand]); };
    args_.logits = floats(ir::kSampleLogits);
    args_.temperature = floats(ir::kSampleTemperature);
    args_.top_k = ints(ir::kSampleTopK);
    args_.top_p = floats(ir::kSampleTopP);
    args_.min_p = floats(ir::kSampleMinP);
    args_.typical_p = floats(ir::kSampleTypicalP);
    args_.xtc_probability = floats(ir::kSampleXtcProbability);
    args_.xtc_threshold = floats(ir::kSampleXtcThreshold);
    args_.uniforms = floats(ir::kSampleUniforms);
    args_.xtc_uniforms = floats(ir::kSampleXtcUniforms);
    args_.has_mask = ints(ir::kSampleHasMask);
    args_.token_mask = ints(ir::kSampleTokenMask);
    args_.num_adjustments = ints(ir::kSampleNumAdjustments);
    args_.adjust_ids = ints(ir::kSampleAdjustIds);
    args_.bias = floats(ir::kSampleBias);
    args_.repetition = floats(ir::kSampleRepetition);
    args_.penalty = floats(ir::kSamplePenalty);
    args_.ids = a.As<int32_t>(node_.results[0]);
  }
  void Run(const TeamContext& team) const override {
    const Range range = SplitRange(rows_.Of(team), 1, team.member, team.members);
    kernels_.sample(args_, range.begin, range.end, team.scratch);
  }
  int64_t ScratchBytes() const override { return static_cast<int64_t>(SampleScratchBytes(args_.vocabulary)); }

 private:
  ir::Node node_;
  const SampleKernels& kernels_;
  LiveExtent rows_;
  SampleArgs args_;
};

class TopLogprobsLaunch : public Launch {
 public:
  TopLogprobsLaunch(const LowerContext& c, const ir::Node& node)
      : node_(node), kernels_(*ChooseSample(c.isa, c.numerics)), rows_(c.f.TypeOf(node.operands[0])) {
    kernel = kernels_.name;
    args_.vocabulary = args_.logits_stride = c.f.TypeOf(node.operands[0]).dims[1].size;
    args_.kmax = node.Int("k");
  }
  void Bind(const Addresses& a) override {
    args_.logits = a.As<const float>(node_.operands[0]);
    args_.ids = a.As<const int32_t>(node_.operands[1]);
    args_.want = a.As<const int32_t>(node_.operands[2]);
    args_.logprob = a.As<float>(node_.results[0]);
    args_.top_ids = a.As<int32_t>(node_.results[1]);
    args_.top_logprobs = a.As<float>(node_.results[2]);
  }
  void Run(const TeamContext& team) const override {
    const Range range = SplitRange(rows_.Of(team), 1, team.member, team.members);
    kernels_.top_logprobs(args_, range.begin, range.end, team.scratch);
  }
  int64_t ScratchBytes() const override { return static_cast<int64_t>(SampleScratchBytes(args_.vocabulary)); }

 private:
  ir::Node node_;
  const SampleKernels& kernels_;
  LiveExtent rows_;
  TopLogprobsArgs args_;
};

}  // namespace

LaunchResult LowerSample(const LowerContext& c, const ir::Node& node) {
  return std::make_unique<SampleLaunch>(c, node);
}

LaunchResult LowerTopLogprobs(const LowerContext& c, const ir::Node& node) {
  return std::make_unique<TopLogprobsLaunch>(c, node);
}

}  // namespace deepinfer::cpu
