// Matrix products with packed weights: y[m, n] = sum over k of x[m, k] * W[n, k] (+ bias) (+ residual).
//
// W is a GGUF-encoded or plain weight, packed once by PackPanels into panels of 32 output columns (packed_layout.h);
// the packed bytes hold exactly the source's values and may be stored in a file and mapped back. x is f32 or bf16,
// row-major. ChooseLinear picks a kernel for (encoding, activation type, ISA, numerics) from an ordered list and says
// why.
//
// Numerics. bf16 core: weights become exact values in bf16 (small integers, codebook entries, e4m3), a block of 32 k
// (16 for q2_k, q3_k, q6_k) is summed by bf16 dot products into f32 from zero, then sum += scale * block, sum +=
// minimum * (sum of the block's x); q2_k and q3_k do that with the integer factors of the scales, and every 256 k sum
// += d * scaled, sum -= dmin * minima. f32 core: weights are decoded to f32 as DecodeRow does, x is widened to f32, one
// chain of fused multiply-adds (portable: multiply, then add) runs over k. Portable numerics: with x in bf16 weights
// are decoded to f32, rounded to bf16 (to nearest, ties to even) and summed in the order of AMX's tile product, two
// chains for 32 k (tile_order.inc); with x in f32 they are the f32 core with FMA. AMX kernels have that order in native
// mode, too, but f16 and f32 weights, which rounding would harm, keep the f32 core there. Integer cores: x
// becomes blocks of 32 integers times a scale, whose products with the weights' codes are summed exactly; a block is
// scaled in f32 and added in one order that is the same on every ISA (integer_core.inc). For int8 numerics they are in
// [-127, 127], times amax / 127. With x in bf16 on AVX2 native numerics have 16 bits times a power of two, in which
// values of at least amax / 128 are exact and smaller ones are off by at most amax / 2^15 (integer_x.inc); encodings
// that are not integers times scales keep the f32 core. For a given kernel every output element is computed in that one
// order, whatever m, the column range, other rows, or the number of threads: results are bit-equal. Then value = sum +
// bias; y = round(value), or, with a residual, y = round(residual + round(value)): the same bits as separate ops.
//
// Threads: Run writes only the columns it is given, so members of a team call it with disjoint column ranges and their
// own scratch; no barriers inside. Nothing here allocates. Arguments are the caller's own: wrong ones are bugs
// (DI_CHECK).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/cpu_features.h"
#include "base/dtype.h"
#include "base/encoding.h"
#include "base/numerics.h"

namespace deepinfer::cpu {

inline constexpr int64_t kLinearGrain = 32;  // column ranges are cut at multiples of this

// A range of the packed weight's columns and where it goes. y, bias and residual are indexed from col_begin.
struct LinearOutput {
  int64_t col_begin = 0;
  int64_t col_end = 0;
  void* y = nullptr;
  int64_t ldy = 0;                 // elements between rows
  const float* bias = nullptr;     // [col_end - col_begin] or null
  const void* residual = nullptr;  // same dtype as y; may be y itself; or null
  int64_t ld_residual = 0;
};

struct LinearArgs {
  const void* x = nullptr;  // [m, k] of the kernel's activation type
  int64_t ldx = 0;
  int64_t m = 0;
  const void* packed = nullptr;  // 64-byte aligned
  int64_t n = 0;
  int64_t k = 0;
  DType y_dtype = DType::kF32;            // f32 or bf16, for all outputs
  const LinearOutput* outputs = nullptr;  // columns in none of them are computed and dropped
  int num_outputs = 0;
  void* scratch = nullptr;         // LinearScratchBytes, 64-byte aligned, this thread's own
  const void* prepared = nullptr;  // filled by PrepareLinear for rows [0, m); null: Run prepares in its scratch
};

// The modes of numerics that a kernel serves, a bit for each.
template <class... N>
constexpr uint8_t Modes(N... numerics) {
  return static_cast<uint8_t>(((1u << static_cast<unsigned>(numerics)) | ...));
}

// One row of the kernel table.
struct LinearKernel {
  const char* name;  // "linear.q4_1.bf16.avx512_bf16": op, encoding, activation type, ISA
  Isa isa;
  Encoding encoding;
  DType act;       // f32 or bf16
  bool bf16_core;  // else the f32 core, or an integer core
  void (*run)(const LinearArgs& args, int64_t col_begin, int64_t col_end);
  void (*prepare)(const void* x, int64_t ldx, int64_t row_begin, int64_t row_end, int64_t k, void* prepared);
  uint8_t modes = Modes(Numerics::kNative);
  int integer_bits = 0;  // of x in an integer core: 8 or 16; bf16_core is false then
  // Of a kernel with a geometry of its own: the bytes of PreparedLinearBytes and of LinearScratchBytes.
  int64_t (*prepared_bytes)(int64_t m, int64_t k) = nullptr;
  int64_t (*scratch_bytes)(int64_t max_m, int64_t k) = nullptr;

  bool Serves(Numerics numerics) const { return (modes & Modes(numerics)) != 0; }
};

std::span<const LinearKernel> LinearKernels(Isa isa);  // the kernels of one ISA

struct LinearChoice {
  const LinearKernel* kernel = nullptr;
  std::string reason;  // "linear.q4_1.bf16.avx512: amx: no kernel; avx512_bf16: not selected; avx512: taken"
};
// The best kernel with an ISA of at most `isa` that serves the mode. Every (encoding, f32 or bf16) has a native one;
// what int8 has none for is native.
LinearChoice ChooseLinear(Encoding encoding, DType act, Isa isa, Numerics numerics);
// Whether there is any kernel for the mode.
bool HasLinear(Isa isa, Numerics numerics);

// Name of the byte layout, for cache keys; changes whenever the bytes do.
inline constexpr const char* kPackedLinearFormat = "panel32.v1";

size_t PackedLinearBytes(Encoding encoding, int64_t n, int64_t k);

// Rows of one source tensor; several are stacked into one packed weight (q | k | v).
struct PackSegment {
  const void* rows = nullptr;  // no alignment needed
  int64_t num_rows = 0;
  int64_t row_stride = 0;  // bytes; at least RowBytes(encoding, k)
};
inline int64_t NumPanels(int64_t n) {
  return (n + kLinearGrain - 1) / kLinearGrain;
}
// Writes panels [panel_begin, panel_end) of dst (the whole packed weight). Threads may take disjoint ranges.
void PackPanels(Encoding encoding, std::span<const PackSegment> segments, int64_t k, void* dst, int64_t panel_begin,
                int64_t panel_end);

// The f32 values of one row of W (k of them), bit-equal to DecodeRow of the source.
void DecodePackedRow(Encoding encoding, const void* packed, int64_t n, int64_t k, int64_t row, float* out);

// Scratch of one thread for any m up to max_m.
size_t LinearScratchBytes(const LinearKernel& kernel, int64_t max_m, int64_t k);

// What a kernel derives from x before it starts (block sums, x widened to f32 and padded, or blocks of integers); 0
// where there is nothing. Optional: with many threads and large m, members prepare disjoint rows into one buffer
// (64-byte aligned), meet at a barrier, and pass it as LinearArgs::prepared. With two threads preparing inside Run
// costs less than a barrier.
size_t PreparedLinearBytes(const LinearKernel& kernel, int64_t m, int64_t k);
void PrepareLinear(const LinearKernel& kernel, const void* x, int64_t ldx, int64_t row_begin, int64_t row_end,
                   int64_t k, void* prepared);

// Columns [col_begin, col_end): multiples of kLinearGrain, or n.
void RunLinear(const LinearKernel& kernel, const LinearArgs& args, int64_t col_begin, int64_t col_end);

}  // namespace deepinfer::cpu
