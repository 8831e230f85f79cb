// Picks a kernel table by instruction set; the tables of instruction sets that this build lacks are not named.
//
//   DI_DECLARE_ISA_TABLE(NormKernels, kNorm);       declares kNormPortable, kNormAvx2, kNormAvx512
//   const NormKernels& k = DI_PICK_ISA(isa, kNorm);
// avx512_bf16 and amx use the avx512 table: these kernels gain nothing from either. Kernels whose bits depend on the
// number of lanes or on FMA have a second build in the order of avx512 for portable numerics:
//   DI_DECLARE_FIXED_TABLE(NormKernels, kNorm);     and kNormPortableFixed, kNormAvx2Fixed
//   const NormKernels& k = DI_PICK_NUMERICS(isa, numerics, kNorm);
// No state.
#pragma once

#include "base/cpu_features.h"
#include "base/numerics.h"

#if defined(__x86_64__)
#define DI_DECLARE_ISA_TABLE(type, name) \
  extern const type name##Portable;      \
  extern const type name##Avx2;          \
  extern const type name##Avx512
#define DI_DECLARE_FIXED_TABLE(type, name) \
  DI_DECLARE_ISA_TABLE(type, name);        \
  extern const type name##PortableFixed;   \
  extern const type name##Avx2Fixed
#define DI_PICK_FIXED(isa, name) \
  ((isa) >= Isa::kAvx512 ? name##Avx512 : (isa) >= Isa::kAvx2 ? name##Avx2Fixed : name##PortableFixed)
#define DI_PICK_ISA(isa, name) \
  ((isa) >= Isa::kAvx512 ? name##Avx512 : (isa) >= Isa::kAvx2 ? name##Avx2 : name##Portable)
#else
#define DI_DECLARE_ISA_TABLE(type, name) extern const type name##Portable
#define DI_PICK_ISA(isa, name) (static_cast<void>(isa), name##Portable)
#define DI_DECLARE_FIXED_TABLE(type, name) \
  DI_DECLARE_ISA_TABLE(type, name);        \
  extern const type name##PortableFixed
#define DI_PICK_FIXED(isa, name) (static_cast<void>(isa), name##PortableFixed)
#endif

#define DI_PICK_NUMERICS(isa, numerics, name) \
  ((numerics) == Numerics::kPortable ? DI_PICK_FIXED(isa, name) : DI_PICK_ISA(isa, name))
