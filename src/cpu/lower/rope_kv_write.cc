// rope_kv_write: the kernels of the norm, the rotation and the cache write, one after the other on a token's heads.
// What they round and how is theirs, so the bits are those of separate launches; conversion to the cache's type is the
// write's alone.
#include "base/thread_team.h"
#include "cpu/kernels/copy/copy.h"
#include "cpu/kernels/norm/norm.h"
#include "cpu/kernels/rope/rope.h"
#include "cpu/lower/lower.h"

namespace deepinfer::cpu {
namespace {

class RopeKvWriteLaunch : public Launch {
 public:
  RopeKvWriteLaunch(const LowerContext& c, const ir::Node& node)
      : node_(node), tokens_(c.f.TypeOf(node.operands[0])), normed_(node.operands.size() == 11) {
    const ir::Type& q = c.f.TypeOf(node.operands[0]);
    const ir::Type& cache = c.f.TypeOf(node.operands[7]);
    const RopeKernels& rope = *ChooseRope(c.isa, q.dtype);
    const IndexPutKernels put = ChooseIndexPut(c.isa, q.dtype, cache.dtype);
    element_ = static_cast<int64_t>(SizeOf(q.dtype));
    rope_ = rope.rope;
    put_ = put.paged;
    kernel = std::string(rope.name) + " + " + put.name;
    if (normed_) {
      const NormKernels& norm = *ChooseNorm(c.isa, q.dtype, c.numerics);
      rms_norm_ = norm.rms_norm;
      kernel = std::string(norm.name) + " + " + kernel;
    }
    norm_.width = norm_.x_stride = norm_.out_stride = q.dims[2].size;
    norm_.eps = static_cast<float>(node.Float("eps"));
    norm_.offset = static_cast<float>(node.Float("offset"));
    turn_.head_size = q.dims[2].size;
    turn_.half = c.f.TypeOf(node.operands[3]).dims[1].size;
    turn_.interleaved = node.Int("interleaved") != 0;
    q_heads_ = q.dims[1].size;
    write_.num_blocks = cache.dims[0].size;
    write_.heads = cache.dims[1].size;
    write_.block_size = cache.dims[2].size;
    write_.head_size = cache.dims[3].size;
    write_.rows_stride = write_.heads * write_.head_size;
  }

  void Bind(const Addresses& a) override {
    q_ = a.As<const std::byte>(node_.operands[0]);
    k_ = a.As<const std::byte>(node_.operands[1]);
    v_ = a.As<const std::byte>(node_.operands[2]);
    turn_.cos = a.As<const float>(node_.operands[3]);
    turn_.sin = a.As<const float>(node_.operands[4]);
    write_.block = a.As<const int32_t>(node_.operands[5]);
    write_.offset = a.As<const int32_t>(node_.operands[6]);
    k_cache_ = a.Of(node_.operands[7]);
    v_cache_ = a.Of(node_.operands[8]);
    q_weight_ = normed_ ? a.As<const float>(node_.operands[9]) : nullptr;
    k_weight_ = normed_ ? a.As<const float>(node_.operands[10]) : nullptr;
    q_out_ = a.As<std::byte>(node_.results[0]);
  }

  // With one token the first member turns q while the last one turns and writes k and v.
  void Run(const TeamContext& team) const override {
    const int64_t tokens = tokens_.Of(team);
    const Range queries = SplitRange(tokens, 1, team.member, team.members);
    const int64_t q_bytes = q_heads_ * turn_.head_size * element_;
    for (int64_t token = queries.begin; token < queries.end; ++token) {
      NormAndTurn(q_ + token * q_bytes, q_heads_, q_weight_, token, q_out_ + token * q_bytes);
    }
    const Range keys = SplitRange(tokens, 1, team.members - 1 - team.member, team.members);
    for (int64_t token = keys.begin; token < keys.end; ++token) WriteKey(token, team.scratch);
    IndexPutPagedArgs values = write_;
    values.destination = v_cache_;
    values.rows = v_;
    put_(values, keys.begin, keys.end);
  }

  int64_t ScratchBytes() const override { return write_.rows_stride * element_; }

 private:
  void NormAndTurn(const std::byte* x, int64_t heads, const float* weight, int64_t token, std::byte* out) const {
    if (normed_) {
      RmsNormArgs norm = norm_;
      norm.x = x;
      norm.weight = weight;
      norm.out = out;
      rms_norm_(norm, 0, heads);
      x = out;
    }
    RopeArgs turn = turn_;
    turn.x = x;
    turn.out = out;
    turn.heads = heads;
    turn.cos += token * turn.half;
    turn.sin += token * turn.half;
    rope_(turn, 0, 1);
  }

  void WriteKey(int64_t token, std::byte* turned) const {
    NormAndTurn(k_ + token * write_.rows_stride * element_, write_.heads, k_weight_, token, turned);
    IndexPutPagedArgs write = write_;
    write.destination = k_cache_;
    write.block += token;
    write.offset += token;
    write.rows = turned;
    put_(write, 0, 1);
  }

  ir::Node node_;
  LiveExtent tokens_;
  bool normed_;
  int64_t element_ = 0;  // bytes
  int64_t q_heads_ = 0;
  void (*rms_norm_)(const RmsNormArgs&, int64_t, int64_t) = nullptr;
  void (*rope_)(const RopeArgs&, int64_t, int64_t) = nullptr;
  void (*put_)(const IndexPutPagedArgs&, int64_t, int64_t) = nullptr;
  RmsNormArgs norm_;
  RopeArgs turn_;
  IndexPutPagedArgs write_;
  const std::byte* q_ = nullptr;
  const std::byte* k_ = nullptr;
  const std::byte* v_ = nullptr;
  const float* q_weight_ = nullptr;
  const float* k_weight_ = nullptr;
  std::byte* q_out_ = nullptr;
  void* k_cache_ = nullptr;
  void* v_cache_ = nullptr;
};

}  // namespace

LaunchResult LowerRopeKvWrite(const LowerContext& c, const ir::Node& node) {
  return std::make_unique<RopeKvWriteLaunch>(c, node);
}

}  // namespace deepinfer::cpu
