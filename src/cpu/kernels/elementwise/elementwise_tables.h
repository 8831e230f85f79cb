// The elementwise kernels of one instruction set. Internal to elementwise/.
#pragma once

#include "cpu/kernels/elementwise/elementwise.h"

namespace deepinfer {

struct ElementwiseTable {
  BinaryKernel f32[6], bf16[6];       // by BinaryOp
  ConvertKernel float_convert[3][3];  // by [from][to] of f32, bf16, f16
};

}  // namespace deepinfer
