#include "cpu/kernels/glu/glu.h"

#include "cpu/kernels/pick_isa.h"

namespace deepinfer {

DI_DECLARE_ISA_TABLE(GluKernels, kGluF32);
DI_DECLARE_ISA_TABLE(GluKernels, kGluBf16);

const GluKernels* ChooseGlu(Isa isa, DType activation) {
  if (activation == DType::kF32) return &DI_PICK_ISA(isa, kGluF32);
  if (activation == DType::kBF16) return &DI_PICK_ISA(isa, kGluBf16);
  return nullptr;
}

}  // namespace deepinfer
