// What this CPU can do, and which instruction set the kernels use. Detected once by CPUID (and XGETBV for OS support);
// where there is AMX, detection asks Linux for the right to use tiles.
//
// DEEPINFER_CPU_ISA=portable|avx2|avx512|avx512_bf16|amx forces a lower one (for tests); a value the machine lacks or
// an unknown name is an error that lists what is there. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace deepinfer {

// Ascending: a machine that has one has all before it.
enum class Isa : int { kPortable = 0, kAvx2 = 1, kAvx512 = 2, kAvx512Bf16 = 3, kAmx = 4 };

const char* ToString(Isa isa);   // "portable" "avx2" "avx512" "avx512_bf16" "amx"
bool MachineHas(Isa isa);        // avx2: AVX2+FMA+F16C; avx512: F,BW,DQ,VL,VNNI,VBMI; avx512_bf16: + BF16; amx: +
                                 // TILE, BF16
std::vector<Isa> MachineIsas();  // ascending, always with kPortable
Result<Isa> SelectIsa(std::string_view forced);  // "" = the best this machine has
std::string CpuName();                           // brand string

}  // namespace deepinfer
