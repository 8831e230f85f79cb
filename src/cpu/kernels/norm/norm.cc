#include "cpu/kernels/norm/norm.h"

#include "cpu/kernels/pick_isa.h"

namespace deepinfer {

DI_DECLARE_ISA_TABLE(NormKernels, kNormF32);
DI_DECLARE_ISA_TABLE(NormKernels, kNormBf16);

const NormKernels* ChooseNorm(Isa isa, DType activation) {
  if (activation == DType::kF32) return &DI_PICK_ISA(isa, kNormF32);
  if (activation == DType::kBF16) return &DI_PICK_ISA(isa, kNormBf16);
  return nullptr;
}

}  // namespace deepinfer
