// gated_linear: a member computes gate and up for a tile of its columns and multiplies them while they are in its
// cache, so no other launch, no barrier, and no trip to memory lies between. Gate and up are packed each on its own:
// their encodings and orders of inputs may differ.
#include <algorithm>

#include "base/thread_team.h"
#include "cpu/kernels/glu/glu.h"
#include "cpu/kernels/linear/linear.h"
#include "cpu/lower/linear_inputs.h"
#include "cpu/lower/lower.h"

namespace deepinfer::cpu {
namespace {

constexpr int64_t kChunkRows = 256;
constexpr int64_t kTileBytes = 32 << 10;  // of gate, and as much of up: half of an L1 and of what L2 has left for x

// One of the two products.
struct Factor {
  const LinearKernel* kernel = nullptr;
  InputOrder order;
  const void* packed = nullptr;
  ir::ValueId bias = ir::kNoValue;
  const float* bias_at = nullptr;
};

// Where a member keeps what it needs for one chunk of rows.
struct Scratch {
  std::byte* ordered[2] = {};   // x in the order of a factor's rows
  std::byte* prepared[2] = {};  // what its kernel derives from x
  std::byte* tiles[2] = {};     // gate and up
  std::byte* kernel = nullptr;
  int64_t bytes = 0;
};

class GatedLinearLaunch : public Launch {
 public:
  Status Init(const LowerContext& c, const ir::Node& node) {
    node_ = node;
    const ir::Type& x = c.f.TypeOf(node.operands[0]);
    rows_ = LiveExtent(x);
    k_ = x.dims[1].size;
    x_dtype_ = x.dtype;
    const ir::Type& y = c.f.TypeOf(node.results[0]);
    n_ = y.dims[1].size;
    y_dtype_ = y.dtype;
    for (size_t i = 0; i < 2; ++i) {
      const ir::Type& weight = c.f.TypeOf(node.operands[1 + i]);
      const std::string& name = c.f.FindInput(node.operands[1 + i])->name;
      DI_ASSIGN_OR_RETURN(const backend::WeightData* source, c.weights->Source(name));
      const LinearChoice choice = ChooseLinear(EncodingOf(weight), x_dtype_, c.isa, c.numerics);
      if (choice.kernel == nullptr) {
        return MakeError(ErrorCode::kUnsupported, "gated_linear", "no kernel for {}", ToString(weight));
      }
      Factor& factor = factors_[i];
      factor.kernel = choice.kernel;
      factor.order = source->order;
      if (node.operands.size() == 5) factor.bias = node.operands[3 + i];
      DI_ASSIGN_OR_RETURN(factor.packed, c.weights->Packed({name}));
      if (i == 1 && choice.kernel == factors_[0].kernel) continue;
      kernel += (i == 0 ? "" : " + ") + std::string(choice.kernel->name);
      reason += (i == 0 ? "" : " + ") + choice.reason;
    }
    const GluKernels& glu = *ChooseGlu(c.isa, y_dtype_, c.numerics);
    glu_ = node.Str("activation") == "silu" ? glu.silu : glu.gelu_tanh;
    kernel = "gated_" + kernel + " + " + glu.name;
    return {};
  }

  void Bind(const Addresses& a) override {
    x_ = a.As<const std::byte>(node_.operands[0]);
    y_ = a.As<std::byte>(node_.results[0]);
    for (Factor& factor : factors_) {
      factor.bias_at = factor.bias == ir::kNoValue ? nullptr : a.As<const float>(factor.bias);
    }
  }

  void Run(const TeamContext& team) const override {
    const int64_t m = rows_.Of(team);
    const Range range = SplitRange(n_, kLinearGrain, team.member, team.members);
    if (range.begin >= range.end) return;
    const Scratch scratch = Layout(team.scratch);
    for (int64_t row = 0; row < m; row += kChunkRows) {
      RunChunk(row, std::min(kChunkRows, m - row), range, scratch);
    }
  }

  int64_t ScratchBytes() const override { return Layout(nullptr).bytes; }

 private:
  static constexpr int64_t Padded(int64_t bytes) { return (bytes + 63) / 64 * 64; }
  int64_t ChunkRows() const { return std::min(kChunkRows, std::max<int64_t>(rows_.size, 1)); }
  int64_t TileColumns(int64_t rows) const {
    const int64_t columns = kTileBytes / static_cast<int64_t>(SizeOf(y_dtype_)) / rows / kLinearGrain * kLinearGrain;
    return std::clamp(columns, kLinearGrain, (n_ + kLinearGrain - 1) / kLinearGrain * kLinearGrain);
  }

  // Up prepares x anew only where it differs from gate.
  bool SharesInputs() const {
    return factors_[0].kernel == factors_[1].kernel && SameOrder(factors_[0].order, factors_[1].order);
  }

  Scratch Layout(std::byte* start) const {
    const int64_t rows = ChunkRows();
    Scratch s;
    const auto take = [&](int64_t bytes) {
      std::byte* at = start + s.bytes;
      s.bytes += Padded(bytes);
      return at;
    };
    for (size_t i = 0; i < 2; ++i) {
      if (i == 1 && SharesInputs()) {
        s.ordered[1] = s.ordered[0];
        s.prepared[1] = s.prepared[0];
        continue;
      }
      s.ordered[i] = take(factors_[i].order == nullptr ? 0 : OrderedBytes(x_dtype_, rows, k_));
      s.prepared[i] = take(static_cast<int64_t>(PreparedLinearBytes(*factors_[i].kernel, rows, k_)));
    }
    for (std::byte*& tile : s.tiles) tile = take(std::max(kTileBytes, rows * kLinearGrain * 4));
    s.kernel = take(static_cast<int64_t>(std::max(LinearScratchBytes(*factors_[0].kernel, rows, k_),
                                                  LinearScratchBytes(*factors_[1].kernel, rows, k_))));
    return s;
  }

  void RunChunk(int64_t row, int64_t rows, const Range& range, const Scratch& scratch) const {
    const std::byte* x = x_ + row * k_ * static_cast<int64_t>(SizeOf(x_dtype_));
    LinearArgs args[2];
    for (size_t i = 0; i < 2; ++i) {
      const Factor& factor = factors_[i];
      args[i].x = x;
      if (factor.order != nullptr) args[i].x = scratch.ordered[i];
      if (i == 0 || !SharesInputs()) {
        if (factor.order != nullptr) OrderInputs(*factor.order, x_dtype_, x, rows, scratch.ordered[i]);
        PrepareLinear(*factor.kernel, args[i].x, k_, 0, rows, k_, scratch.prepared[i]);
      }
      args[i].ldx = args[i].k = k_;
      args[i].m = rows;
      args[i].packed = factor.packed;
      args[i].n = n_;
      args[i].y_dtype = y_dtype_;
      args[i].scratch = scratch.kernel;
      args[i].prepared = scratch.prepared[i];
    }
    const int64_t columns = TileColumns(rows);
    for (int64_t column = range.begin; column < range.end; column += columns) {
      RunTile(row, column, std::min(column + columns, range.end), args, scratch);
    }
  }

  void RunTile(int64_t row, int64_t begin, int64_t end, LinearArgs* args, const Scratch& scratch) const {
    for (size_t i = 0; i < 2; ++i) {
      LinearOutput output;
      output.col_begin = begin;
      output.col_end = end;
      output.y = scratch.tiles[i];
      output.ldy = end - begin;
      output.bias = factors_[i].bias_at == nullptr ? nullptr : factors_[i].bias_at + begin;
      args[i].outputs = &output;
      args[i].num_outputs = 1;
      RunLinear(*factors_[i].kernel, args[i], begin, end);
    }
    GluArgs glu;
    glu.gate = scratch.tiles[0];
    glu.up = scratch.tiles[1];
    glu.out = y_ + (row * n_ + begin) * static_cast<int64_t>(SizeOf(y_dtype_));
    glu.gate_stride = glu.up_stride = glu.width = end - begin;
    glu.out_stride = n_;
    glu_(glu, 0, args[0].m);
  }

  ir::Node node_;
  LiveExtent rows_;
  int64_t k_ = 0;
  int64_t n_ = 0;
  DType x_dtype_ = DType::kF32;
  DType y_dtype_ = DType::kF32;
  Factor factors_[2];  // gate, up
  void (*glu_)(const GluArgs&, int64_t, int64_t) = nullptr;
  const std::byte* x_ = nullptr;
  std::byte* y_ = nullptr;
};

}  // namespace

LaunchResult LowerGatedLinear(const LowerContext& c, const ir::Node& node) {
  auto launch = std::make_unique<GatedLinearLaunch>();
  DI_RETURN_IF_ERROR(launch->Init(c, node));
  return launch;
}

}  // namespace deepinfer::cpu
