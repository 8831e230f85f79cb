#include "cpu/lower/gated_product.h"

#include <algorithm>

#include "cpu/lower/linear_inputs.h"
#include "cpu/lower/scratch.h"

namespace deepinfer::cpu {
namespace {

constexpr int64_t kChunkRows = 256;
constexpr int64_t kTileBytes = 32 << 10;  // of gate, and as much of up: they and x stay in L2

}  // namespace

Status GatedProduct::Init(const LowerContext& c, ir::ValueId gate, ir::ValueId up, int64_t n, int64_t k, DType x,
                          DType y, const std::string& activation) {
  n_ = n;
  k_ = k;
  x_dtype_ = x;
  y_dtype_ = y;
  for (size_t i = 0; i < 2; ++i) {
    const ir::ValueId weight = i == 0 ? gate : up;
    const std::string& name = c.f.FindInput(weight)->name;
    DI_ASSIGN_OR_RETURN(const backend::WeightData* source, c.weights->Source(name));
    const LinearChoice choice = ChooseLinear(EncodingOf(c.f.TypeOf(weight)), x_dtype_, c.isa, c.numerics);
    if (choice.kernel == nullptr) {
      return MakeError(ErrorCode::kUnsupported, "--numerics", "{} has no kernel for {} with activations in {}",
                       ToString(c.numerics), ToString(c.f.TypeOf(weight)), ToString(x_dtype_));
    }
    Factor& factor = factors_[i];
    factor.kernel = choice.kernel;
    factor.order = source->order;
    // Of several stacked, which ones are read, and by whom, is known in the step.
    const Share share = source->shape[0] == n ? Share::kFixed : Share::kMoving;
    DI_ASSIGN_OR_RETURN(const void* packed, c.weights->Packed({name}, share));
    factor.packed = static_cast<const std::byte*>(packed);
    if (i == 1 && choice.kernel == factors_[0].kernel) continue;
    kernel += (i == 0 ? "" : " + ") + std::string(choice.kernel->name);
    reason += (i == 0 ? "" : " + ") + choice.reason;
  }
  const GluKernels& glu = *ChooseGlu(c.isa, y_dtype_, c.numerics);
  glu_ = activation == "silu" ? glu.silu : glu.gelu_tanh;
  kernel += std::string(" + ") + glu.name;
  return {};
}

// Up prepares x anew only where it differs from gate.
bool GatedProduct::SharesInputs() const {
  return factors_[0].kernel == factors_[1].kernel && SameOrder(factors_[0].order, factors_[1].order);
}

int64_t GatedProduct::TileColumns(int64_t rows) const {
  const int64_t columns = kTileBytes / static_cast<int64_t>(SizeOf(y_dtype_)) / rows / kLinearGrain * kLinearGrain;
  return std::clamp(columns, kLinearGrain, (n_ + kLinearGrain - 1) / kLinearGrain * kLinearGrain);
}

GatedProduct::Scratch GatedProduct::Layout(std::byte* start, int64_t max_rows) const {
  const int64_t rows = std::clamp<int64_t>(max_rows, 1, kChunkRows);
  Scratch s;
  const auto take = [&](int64_t bytes) { return TakeScratch(start, bytes, &s.bytes); };
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
  s.kernel = take(static_cast<int64_t>(
      std::max(LinearScratchBytes(*factors_[0].kernel, rows, k_), LinearScratchBytes(*factors_[1].kernel, rows, k_))));
  return s;
}

void GatedProduct::Run(const Args& args, int64_t begin, int64_t end) const {
  if (begin >= end) return;
  const Scratch scratch = Layout(args.scratch, args.rows);
  for (int64_t row = 0; row < args.rows; row += kChunkRows) {
    RunChunk(args, row, std::min(kChunkRows, args.rows - row), begin, end, scratch);
  }
}

void GatedProduct::RunChunk(const Args& args, int64_t row, int64_t rows, int64_t begin, int64_t end,
                            const Scratch& scratch) const {
  const std::byte* x = args.x + row * k_ * static_cast<int64_t>(SizeOf(x_dtype_));
  LinearArgs linear[2];
  for (size_t i = 0; i < 2; ++i) {
    const Factor& factor = factors_[i];
    LinearArgs& each = linear[i];
    each.x = factor.order == nullptr ? x : scratch.ordered[i];
    if (i == 0 || !SharesInputs()) {
      if (factor.order != nullptr) OrderInputs(*factor.order, x_dtype_, x, rows, scratch.ordered[i]);
      PrepareLinear(*factor.kernel, each.x, k_, 0, rows, k_, scratch.prepared[i]);
    }
    each.ldx = each.k = k_;
    each.m = rows;
    each.packed = factor.packed + args.part * static_cast<int64_t>(PackedLinearBytes(factor.kernel->encoding, n_, k_));
    each.n = n_;
    each.y_dtype = y_dtype_;
    each.scratch = scratch.kernel;
    each.prepared = scratch.prepared[i];
  }
  const auto size = static_cast<int64_t>(SizeOf(y_dtype_));
  const int64_t columns = TileColumns(rows);
  for (int64_t column = begin; column < end; column += columns) {
    const int64_t width = std::min(columns, end - column);
    for (size_t i = 0; i < 2; ++i) {
      LinearOutput output;
      output.col_begin = column;
      output.col_end = column + width;
      output.y = scratch.tiles[i];
      output.ldy = width;
      output.bias = args.biases[i] == nullptr ? nullptr : args.biases[i] + column;
      linear[i].outputs = &output;
      linear[i].num_outputs = 1;
      RunLinear(*factors_[i].kernel, linear[i], column, column + width);
    }
    GluArgs glu;
    glu.gate = scratch.tiles[0];
    glu.up = scratch.tiles[1];
    glu.out = args.y + (row * n_ + column) * size;
    glu.gate_stride = glu.up_stride = glu.width = width;
    glu.out_stride = n_;
    glu_(glu, 0, rows);
  }
}

}  // namespace deepinfer::cpu
