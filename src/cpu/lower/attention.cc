// Paged attention, slot arithmetic, rows for caches of 8 bits, cache writes.
#include "cpu/kernels/attention/attention.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "base/thread_team.h"
#include "cpu/kernels/copy/copy.h"
#include "cpu/lower/lower.h"

namespace deepinfer::cpu {
namespace {

class AttentionLaunch : public Launch {
 public:
  AttentionLaunch(const LowerContext& c, const ir::Node& node)
      : node_(node), tokens_(c.f.TypeOf(node.operands[0])), requests_(c.f.TypeOf(node.operands[3])) {
    const ir::Type& q = c.f.TypeOf(node.operands[0]);
    const ir::Type& cache = c.f.TypeOf(node.operands[1]);
    const AttentionKernels kernels = ChoosePagedAttention(c.isa, q.dtype, cache.dtype, c.numerics);
    run_ = kernels.run;
    kernel = kernels.name;
    args_.num_blocks = cache.dims[0].size;
    args_.kv_heads = cache.dims[1].size;
    args_.block_size = cache.dims[2].size;
    args_.head_size = cache.dims[3].size;
    args_.query_heads = q.dims[1].size;
    args_.q_stride = args_.out_stride = args_.query_heads * args_.head_size;
    args_.max_blocks = c.f.TypeOf(node.operands[3]).dims[1].size;
    args_.scale = static_cast<float>(node.Float("scale", 1.0));
    args_.window = static_cast<int32_t>(node.Int("window"));
    args_.softcap = static_cast<float>(node.Float("softcap"));
    args_.k_scale = static_cast<float>(node.Float("k_scale", 1.0));
    args_.v_scale = static_cast<float>(node.Float("v_scale", 1.0));
    scaled_ = cache.dtype == DType::kI8;
    sinks_ = node.operands.size() == (scaled_ ? 9 : 7);
  }
  void Bind(const Addresses& a) override {
    args_.q = a.Of(node_.operands[0]);
    args_.k_cache = a.Of(node_.operands[1]);
    args_.v_cache = a.Of(node_.operands[2]);
    args_.block_tables = a.As<const int32_t>(node_.operands[3]);
    args_.query_start = a.As<const int32_t>(node_.operands[4]);
    args_.positions = a.As<const int32_t>(node_.operands[5]);
    if (scaled_) args_.k_scales = a.As<const float>(node_.operands[6]);
    if (scaled_) args_.v_scales = a.As<const float>(node_.operands[7]);
    if (sinks_) args_.sinks = a.As<const float>(node_.operands.back());
    args_.out = a.Of(node_.results[0]);
  }
  void SetMembers(int members) override {
    done_ = std::make_unique<std::atomic<int32_t>[]>(static_cast<size_t>(members));
    args_.done = done_.get();
  }
  bool IsAlone() const override { return true; }
  void Run(const TeamContext& team) const override {
    PagedAttentionArgs args = args_;
    args.live_tokens = tokens_.Of(team);
    args.live_requests = requests_.Of(team);
    args.scratch = team.shared_scratch;
    run_(args, team.member, team.members);
  }
  int64_t SharedScratchBytes(int members) const override {
    return static_cast<int64_t>(
        PagedAttentionScratchBytes(args_.head_size, args_.max_blocks * args_.block_size, members));
  }

 private:
  ir::Node node_;
  LiveExtent tokens_;
  LiveExtent requests_;
  bool scaled_ = false;  // K and V are codes with a scale for each row
  bool sinks_ = false;
  std::unique_ptr<std::atomic<int32_t>[]> done_;
  void (*run_)(const PagedAttentionArgs&, int, int) = nullptr;
  PagedAttentionArgs args_;
};

class SlotLaunch : public Launch {
 public:
  SlotLaunch(const LowerContext& c, const ir::Node& node) : node_(node), tokens_(c.f.TypeOf(node.operands[0])) {
    kernel = "paged_slot_indices";
    args_.block_size = node.Int("block_size");
    args_.num_blocks = node.Int("blocks");
  }
  void Bind(const Addresses& a) override {
    args_.slots = a.As<const int32_t>(node_.operands[0]);
    args_.block = a.As<int32_t>(node_.results[0]);
    args_.offset = a.As<int32_t>(node_.results[1]);
  }
  void Run(const TeamContext& team) const override {
    const Range range = SplitRange(tokens_.Of(team), 16, team.member, team.members);
    PagedSlotIndices(args_, range.begin, range.end);
  }

 private:
  ir::Node node_;
  LiveExtent tokens_;
  PagedSlotArgs args_;
};

// cache[block[t], :, offset[t], :] = rows[t]
class CacheWriteLaunch : public Launch {
 public:
  CacheWriteLaunch(const LowerContext& c, const ir::Node& node, const IndexPutKernels& kernels)
      : node_(node), tokens_(c.f.TypeOf(node.operands[3])), run_(kernels.paged) {
    const ir::Type& cache = c.f.TypeOf(node.operands[0]);
    kernel = kernels.name;
    args_.num_blocks = cache.dims[0].size;
    args_.heads = cache.dims[1].size;
    args_.block_size = cache.dims[2].size;
    args_.head_size = cache.dims[3].size;
    args_.rows_stride = args_.heads * args_.head_size;
  }
  void Bind(const Addresses& a) override {
    args_.destination = a.Of(node_.operands[0]);
    args_.block = a.As<const int32_t>(node_.operands[1]);
    args_.offset = a.As<const int32_t>(node_.operands[2]);
    args_.rows = a.Of(node_.operands[3]);
  }
  void Run(const TeamContext& team) const override {
    const Range range = SplitRange(tokens_.Of(team), 1, team.member, team.members);
    run_(args_, range.begin, range.end);
  }

 private:
  ir::Node node_;
  LiveExtent tokens_;
  void (*run_)(const IndexPutPagedArgs&, int64_t, int64_t) = nullptr;
  IndexPutPagedArgs args_;
};

class QuantiseLaunch : public Launch {
 public:
  QuantiseLaunch(const LowerContext& c, const ir::Node& node, const QuantiseRowsKernel& chosen)
      : node_(node), tokens_(c.f.TypeOf(node.operands[0])), run_(chosen.run) {
    const ir::Type& rows = c.f.TypeOf(node.operands[0]);
    kernel = chosen.name;
    args_.width = rows.dims.back().size;
    args_.inverse_scale = static_cast<float>(1 / node.Float("scale", 1.0));
    per_token_ = rows.NumElements() / std::max<int64_t>(1, tokens_.size) / args_.width;
  }
  void Bind(const Addresses& a) override {
    args_.rows = a.Of(node_.operands[0]);
    args_.codes = a.Of(node_.results[0]);
    args_.scales = node_.results.size() > 1 ? a.As<float>(node_.results[1]) : nullptr;
  }
  void Run(const TeamContext& team) const override {
    const Range range = SplitRange(tokens_.Of(team) * per_token_, 1, team.member, team.members);
    run_(args_, range.begin, range.end);
  }

 private:
  ir::Node node_;
  LiveExtent tokens_;
  int64_t per_token_ = 1;
  void (*run_)(const QuantiseRowsArgs&, int64_t, int64_t) = nullptr;
  QuantiseRowsArgs args_;
};

}  // namespace

LaunchResult LowerQuantiseRows(const LowerContext& c, const ir::Node& node) {
  const QuantiseRowsKernel chosen =
      ChooseQuantiseRows(c.isa, c.f.TypeOf(node.operands[0]).dtype, c.f.TypeOf(node.results[0]).dtype);
  return std::make_unique<QuantiseLaunch>(c, node, chosen);
}

LaunchResult LowerAttention(const LowerContext& c, const ir::Node& node) {
  return std::make_unique<AttentionLaunch>(c, node);
}

LaunchResult LowerSlotIndices(const LowerContext& c, const ir::Node& node) {
  return std::make_unique<SlotLaunch>(c, node);
}

LaunchResult LowerIndexPut(const LowerContext& c, const ir::Node& node) {
  const ir::Type& destination = c.f.TypeOf(node.operands[0]);
  if (node.Ints("dims") != std::vector<int64_t>{0, 2} || destination.rank() != 4) return nullptr;
  const IndexPutKernels kernels = ChooseIndexPut(c.isa, c.f.TypeOf(node.operands[3]).dtype, destination.dtype);
  if (kernels.paged == nullptr) return nullptr;
  return std::make_unique<CacheWriteLaunch>(c, node, kernels);
}

}  // namespace deepinfer::cpu
