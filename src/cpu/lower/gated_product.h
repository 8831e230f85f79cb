// act(x gate^T) * (x up^T): the work of gated_linear, and of the experts of a moe.
//
// A tile of columns of both products is computed and multiplied while it is in the member's cache, so no other launch,
// no barrier, and no trip to memory lies between. Gate and up are packed each on its own: their encodings and orders of
// inputs may differ. Members run disjoint columns with their own scratch. Thread-safe after Init; Run allocates
// nothing.
#pragma once

#include <string>

#include "cpu/kernels/glu/glu.h"
#include "cpu/kernels/linear/linear.h"
#include "cpu/lower/lower.h"

namespace deepinfer::cpu {

class GatedProduct {
 public:
  // gate, up: weights [n, k], or several of them stacked.
  Status Init(const LowerContext& c, ir::ValueId gate, ir::ValueId up, int64_t n, int64_t k, DType x, DType y,
              const std::string& activation);

  struct Args {
    const std::byte* x = nullptr;  // [rows, k]
    std::byte* y = nullptr;        // [rows, n]
    int64_t rows = 0;
    const float* biases[2] = {};  // [n] of gate and up, or null
    int64_t part = 0;             // which of the stacked weights; n must be a multiple of kLinearGrain if it is not 0
    std::byte* scratch = nullptr;
  };
  // Columns [begin, end): multiples of kLinearGrain, or n.
  void Run(const Args& args, int64_t begin, int64_t end) const;

  int64_t ScratchBytes(int64_t max_rows) const { return Layout(nullptr, max_rows).bytes; }

  std::string kernel, reason;

 private:
  struct Factor {
    const LinearKernel* kernel = nullptr;
    InputOrder order;
    const std::byte* packed = nullptr;
  };
  struct Scratch {
    std::byte* ordered[2] = {};   // x in the order of a factor's rows
    std::byte* prepared[2] = {};  // what its kernel derives from x
    std::byte* tiles[2] = {};     // gate and up
    std::byte* kernel = nullptr;
    int64_t bytes = 0;
  };

  bool SharesInputs() const;
  int64_t TileColumns(int64_t rows) const;
  Scratch Layout(std::byte* start, int64_t max_rows) const;
  void RunChunk(const Args& args, int64_t row, int64_t rows, int64_t begin, int64_t end, const Scratch& scratch) const;

  int64_t n_ = 0;
  int64_t k_ = 0;
  DType x_dtype_ = DType::kF32;
  DType y_dtype_ = DType::kF32;
  Factor factors_[2];  // gate, up
  void (*glu_)(const GluArgs&, int64_t, int64_t) = nullptr;
};

}  // namespace deepinfer::cpu
