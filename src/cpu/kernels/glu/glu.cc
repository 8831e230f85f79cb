#include "cpu/kernels/glu/glu.h"

#include "cpu/kernels/pick_isa.h"

namespace deepinfer {

DI_DECLARE_FIXED_TABLE(GluKernels, kGluF32);
DI_DECLARE_FIXED_TABLE(GluKernels, kGluBf16);

const GluKernels* ChooseGlu(Isa isa, DType activation, Numerics numerics) {
  if (activation == DType::kF32) return &DI_PICK_NUMERICS(isa, numerics, kGluF32);
  if (activation == DType::kBF16) return &DI_PICK_NUMERICS(isa, numerics, kGluBf16);
  return nullptr;
}

}  // namespace deepinfer
