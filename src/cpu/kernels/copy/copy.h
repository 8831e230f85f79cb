// Moving rows: cache writes at paged slots, row gathers, and the split of a slot into block and offset.
//
// Nothing is computed but conversions (round to nearest even). The caller splits tokens [begin, end) as it likes; two
// tokens with the same destination are allowed only where the value does not matter (the null block, a dummy row).
// An index outside its dimension is skipped by a put and clamped by a gather. Thread-safe; allocates nothing.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace deepinfer {

enum class Isa : int;

struct PagedSlotArgs {
  const int32_t* slots = nullptr;
  int64_t block_size = 0;  // B
  int64_t num_blocks = 0;  // N; N * B fits in i32
  int32_t* block = nullptr;
  int32_t* offset = nullptr;
};
// A slot outside [0, N * B) becomes 0 before it is divided: padding writes land in the null block.
void PagedSlotIndices(const PagedSlotArgs& args, int64_t begin, int64_t end);

// destination[block[t], h, offset[t], :] = rows[t, h, :] for every head h.
struct IndexPutPagedArgs {
  void* destination = nullptr;  // [num_blocks, heads, block_size, head_size]
  int64_t num_blocks = 0;
  int64_t heads = 0;
  int64_t block_size = 0;
  int64_t head_size = 0;
  const int32_t* block = nullptr;
  const int32_t* offset = nullptr;
  const void* rows = nullptr;  // heads * head_size contiguous elements, tokens rows_stride elements apart
  int64_t rows_stride = 0;
};

// destination[index[t], :] = rows[t, :].
struct IndexPutRowsArgs {
  void* destination = nullptr;  // [num_rows, width]
  int64_t num_rows = 0;
  int64_t width = 0;
  const int32_t* index = nullptr;
  const void* rows = nullptr;
  int64_t rows_stride = 0;
};

struct IndexPutKernels {
  const char* name = nullptr;  // nullptr: no such kernel
  void (*paged)(const IndexPutPagedArgs& args, int64_t begin, int64_t end) = nullptr;
  void (*rows)(const IndexPutRowsArgs& args, int64_t begin, int64_t end) = nullptr;
};

// rows f32 or bf16 into a destination of f32, bf16 or f16; or both of one type.
IndexPutKernels ChooseIndexPut(Isa isa, DType rows, DType destination);

// Rows as codes of 8 bits: the composite quantise_rows, bit for bit.
struct QuantiseRowsArgs {
  const void* rows = nullptr;  // [count, width]
  int64_t width = 0;
  void* codes = nullptr;    // [count, width]
  float* scales = nullptr;  // [count], of i8
  float inverse_scale = 1;  // of f8e4m3fn: what rows are multiplied by before
};

struct QuantiseRowsKernel {
  const char* name = nullptr;                                                       // nullptr: no such kernel
  void (*run)(const QuantiseRowsArgs& args, int64_t begin, int64_t end) = nullptr;  // rows [begin, end)
};

// rows f32 or bf16, codes f8e4m3fn or i8.
QuantiseRowsKernel ChooseQuantiseRows(Isa isa, DType rows, DType codes);

// out[r, :] = x[index[r], :]; row_bytes per row, for any type.
struct GatherRowsArgs {
  const void* x = nullptr;
  int64_t num_rows = 0;
  int64_t x_stride_bytes = 0;
  const int32_t* index = nullptr;
  void* out = nullptr;
  int64_t out_stride_bytes = 0;
  int64_t row_bytes = 0;
};
void GatherRows(const GatherRowsArgs& args, int64_t begin, int64_t end);

}  // namespace deepinfer
