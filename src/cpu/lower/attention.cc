// Paged attention, slot arithmetic, cache writes.
#include "cpu/kernels/attention/attention.h"

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
  }
  void Bind(const Addresses& a) override {
    args_.q = a.Of(node_.operands[0]);
    args_.k_cache = a.Of(node_.operands[1]);
    args_.v_cache = a.Of(node_.operands[2]);
    args_.block_tables = a.As<const int32_t>(node_.operands[3]);
    args_.query_start = a.As<const int32_t>(node_.operands[4]);
    args_.positions = a.As<const int32_t>(node_.operands[5]);
    args_.out = a.Of(node_.results[0]);
  }
  void Run(const TeamContext& team) const override {
    PagedAttentionArgs args = args_;
    args.live_tokens = tokens_.Of(team);
    args.live_requests = requests_.Of(team);
    args.scratch = team.shared_scratch;
    run_(args, team.member, team.members);
  }
  int64_t SharedScratchBytes(int members) const override {
    return members * static_cast<int64_t>(PagedAttentionScratchBytes(args_.head_size));
  }

 private:
  ir::Node node_;
  LiveExtent tokens_;
  LiveExtent requests_;
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

}  // namespace

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
