// The cache writes of one instruction set. Internal to copy/.
#pragma once

#include "cpu/kernels/copy/copy.h"

namespace deepinfer {

struct IndexPutTable {
  IndexPutKernels by_type[2][3];  // [rows: f32, bf16][destination: f32, bf16, f16]
};

struct QuantiseTable {
  QuantiseRowsKernel by_type[2][2];  // [rows: f32, bf16][codes: f8e4m3fn, i8]
};

}  // namespace deepinfer
