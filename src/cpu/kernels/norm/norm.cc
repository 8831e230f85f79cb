#include "cpu/kernels/norm/norm.h"

#include "cpu/kernels/pick_isa.h"

namespace deepinfer {

DI_DECLARE_FIXED_TABLE(NormKernels, kNormF32);
DI_DECLARE_FIXED_TABLE(NormKernels, kNormBf16);

const NormKernels* ChooseNorm(Isa isa, DType activation, Numerics numerics) {
  if (activation == DType::kF32) return &DI_PICK_NUMERICS(isa, numerics, kNormF32);
  if (activation == DType::kBF16) return &DI_PICK_NUMERICS(isa, numerics, kNormBf16);
  return nullptr;
}

}  // namespace deepinfer
