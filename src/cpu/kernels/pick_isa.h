// Picks a kernel table by instruction set; the tables of instruction sets that this build lacks are not named.
//
//   DI_DECLARE_ISA_TABLE(NormKernels, kNorm);       declares kNormPortable, kNormAvx2, kNormAvx512
//   const NormKernels& k = DI_PICK_ISA(isa, kNorm);
// avx512_bf16 and amx use the avx512 table: these kernels gain nothing from either. No state.
#pragma once

#include "base/cpu_features.h"

#if defined(__x86_64__)
#define DI_DECLARE_ISA_TABLE(type, name) \
  extern const type name##Portable;      \
  extern const type name##Avx2;          \
  extern const type name##Avx512
#define DI_PICK_ISA(isa, name) \
  ((isa) >= Isa::kAvx512 ? name##Avx512 : (isa) >= Isa::kAvx2 ? name##Avx2 : name##Portable)
#else
#define DI_DECLARE_ISA_TABLE(type, name) extern const type name##Portable
#define DI_PICK_ISA(isa, name) (static_cast<void>(isa), name##Portable)
#endif
