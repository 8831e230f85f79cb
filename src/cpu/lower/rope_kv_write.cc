// rope_kv_write: the kernels of the norm, the rotation and the cache write, one after the other on a token's heads.
// What they round and how is theirs, so the bits are those of separate launches; conversion to the cache's type is the
// write's alone, or that of quantise_rows.
#include "base/thread_team.h"
#include "cpu/kernels/copy/copy.h"
#include "cpu/kernels/norm/norm.h"
#include "cpu/kernels/rope/rope.h"
#include "cpu/lower/lower.h"

namespace deepinfer::cpu {
namespace {

// Puts the heads of a token into a cache [blocks, heads, block size, head size] of any type.
class TokenWriter {
 public:
  TokenWriter() = default;
  TokenWriter(Isa isa, DType rows, const ir::Type& cache) : row_bytes_(static_cast<int64_t>(SizeOf(rows))) {
    args_.num_blocks = cache.dims[0].size;
    args_.heads = cache.dims[1].size;
    args_.block_size = cache.dims[2].size;
    args_.head_size = cache.dims[3].size;
    args_.rows_stride = width();
    const bool coded = SizeOf(cache.dtype) == 1;
    const QuantiseRowsKernel quantise = coded ? ChooseQuantiseRows(isa, rows, cache.dtype) : QuantiseRowsKernel();
    const IndexPutKernels put = ChooseIndexPut(isa, coded ? cache.dtype : rows, cache.dtype);
    quantise_ = quantise.run;
    put_ = put.paged;
    put_scales_ = ChooseIndexPut(isa, DType::kF32, DType::kF32).paged;
    name_ = coded ? std::string(quantise.name) + " + " + put.name : put.name;
  }

  const std::string& name() const { return name_; }
  int64_t heads() const { return args_.heads; }
  int64_t width() const { return args_.heads * args_.head_size; }
  int64_t row_bytes() const { return width() * row_bytes_; }
  // What Write needs: scales, then codes.
  int64_t ScratchBytes() const {
    return quantise_ == nullptr ? 0 : args_.heads * static_cast<int64_t>(sizeof(float)) + width();
  }

  void SetPlaces(const int32_t* block, const int32_t* offset) {
    args_.block = block;
    args_.offset = offset;
  }

  // rows: of this token; scales: [blocks, heads, block size] of a cache of i8, else nullptr.
  void Write(const std::byte* rows, int64_t token, void* cache, float* scales, std::byte* scratch) const {
    IndexPutPagedArgs put = args_;
    put.destination = cache;
    put.block += token;
    put.offset += token;
    put.rows = rows;
    if (quantise_ != nullptr) {
      float* own_scales = reinterpret_cast<float*>(scratch);
      std::byte* codes = scratch + args_.heads * static_cast<int64_t>(sizeof(float));
      quantise_({rows, args_.head_size, codes, own_scales, 1}, 0, args_.heads);
      put.rows = codes;
      if (scales != nullptr) WriteScales(put, own_scales, scales);
    }
    put_(put, 0, 1);
  }

 private:
  void WriteScales(IndexPutPagedArgs put, const float* own, float* scales) const {
    put.destination = scales;
    put.rows = own;
    put.head_size = 1;
    put.rows_stride = put.heads;
    put_scales_(put, 0, 1);
  }

  IndexPutPagedArgs args_;
  int64_t row_bytes_ = 0;
  std::string name_;
  void (*quantise_)(const QuantiseRowsArgs&, int64_t, int64_t) = nullptr;
  void (*put_)(const IndexPutPagedArgs&, int64_t, int64_t) = nullptr;
  void (*put_scales_)(const IndexPutPagedArgs&, int64_t, int64_t) = nullptr;
};

class RopeKvWriteLaunch : public Launch {
 public:
  RopeKvWriteLaunch(const LowerContext& c, const ir::Node& node)
      : node_(node),
        tokens_(c.f.TypeOf(node.operands[0])),
        scaled_(node.results.size() == 5),
        normed_(node.operands.size() == Norms() + 2),
        writer_(c.isa, c.f.TypeOf(node.operands[0]).dtype, c.f.TypeOf(node.operands[7])) {
    const ir::Type& q = c.f.TypeOf(node.operands[0]);
    const RopeKernels& rope = *ChooseRope(c.isa, q.dtype);
    element_ = static_cast<int64_t>(SizeOf(q.dtype));
    rope_ = rope.rope;
    kernel = std::string(rope.name) + " + " + writer_.name();
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
  }

  void Bind(const Addresses& a) override {
    q_ = a.As<const std::byte>(node_.operands[0]);
    k_ = a.As<const std::byte>(node_.operands[1]);
    v_ = a.As<const std::byte>(node_.operands[2]);
    turn_.cos = a.As<const float>(node_.operands[3]);
    turn_.sin = a.As<const float>(node_.operands[4]);
    writer_.SetPlaces(a.As<const int32_t>(node_.operands[5]), a.As<const int32_t>(node_.operands[6]));
    k_cache_ = a.Of(node_.operands[7]);
    v_cache_ = a.Of(node_.operands[8]);
    k_scales_ = scaled_ ? a.As<float>(node_.operands[9]) : nullptr;
    v_scales_ = scaled_ ? a.As<float>(node_.operands[10]) : nullptr;
    q_weight_ = normed_ ? a.As<const float>(node_.operands[Norms()]) : nullptr;
    k_weight_ = normed_ ? a.As<const float>(node_.operands[Norms() + 1]) : nullptr;
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
    std::byte* turned = team.scratch + WriterScratch();
    for (int64_t token = keys.begin; token < keys.end; ++token) {
      NormAndTurn(k_ + token * writer_.row_bytes(), writer_.heads(), k_weight_, token, turned);
      writer_.Write(turned, token, k_cache_, k_scales_, team.scratch);
      writer_.Write(v_ + token * writer_.row_bytes(), token, v_cache_, v_scales_, team.scratch);
    }
  }

  int64_t ScratchBytes() const override { return WriterScratch() + writer_.row_bytes(); }

 private:
  size_t Norms() const { return scaled_ ? 11 : 9; }  // the first of their operands
  int64_t WriterScratch() const { return (writer_.ScratchBytes() + 63) / 64 * 64; }

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

  ir::Node node_;
  LiveExtent tokens_;
  bool scaled_;
  bool normed_;
  TokenWriter writer_;
  int64_t element_ = 0;  // bytes
  int64_t q_heads_ = 0;
  void (*rms_norm_)(const RmsNormArgs&, int64_t, int64_t) = nullptr;
  void (*rope_)(const RopeArgs&, int64_t, int64_t) = nullptr;
  RmsNormArgs norm_;
  RopeArgs turn_;
  const std::byte* q_ = nullptr;
  const std::byte* k_ = nullptr;
  const std::byte* v_ = nullptr;
  const float* q_weight_ = nullptr;
  const float* k_weight_ = nullptr;
  std::byte* q_out_ = nullptr;
  void* k_cache_ = nullptr;
  void* v_cache_ = nullptr;
  float* k_scales_ = nullptr;
  float* v_scales_ = nullptr;
};

}  // namespace

LaunchResult LowerRopeKvWrite(const LowerContext& c, const ir::Node& node) {
  return std::make_unique<RopeKvWriteLaunch>(c, node);
}

}  // namespace deepinfer::cpu
