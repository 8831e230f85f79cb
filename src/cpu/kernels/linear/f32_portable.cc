// The f32 core for any machine: 4 lanes of GCC's vector extensions, multiply and add rounded separately.
#include "cpu/kernels/linear/linear_internal.h"

namespace deepinfer::cpu {
namespace {

constexpr int kLanes = 4;
constexpr int kTileRows = 4;
constexpr int kMaxGemvRows = 1;
typedef float VF __attribute__((vector_size(16)));
typedef uint32_t VU __attribute__((vector_size(16)));

__attribute__((always_inline)) inline VF Fma(VF a, VF b, VF c) {
  return a * b + c;
}  // -ffp-contract=off
__attribute__((always_inline)) inline VF Broadcast(float value) {
  return VF{value, value, value, value};
}

// Exact, with no f32 denormal on the way (they may be flushed): a subnormal half is built as a normal float minus
// 2^-14.
template <class Halves>
__attribute__((always_inline)) inline VF HalfToFloat(Halves halves) {
  const VU bits = __builtin_convertvector(halves, VU);
  const VU shifted = (bits & 0x7fffu) << 13;
  const VU exponent = shifted & (0x7c00u << 13);
  const VU special = reinterpret_cast<VU>(exponent == (0x7c00u << 13));  // infinity or NaN
  const VU subnormal = reinterpret_cast<VU>(exponent == 0u);
  const VU normal = shifted + (112u << 23) + (special & (112u << 23));
  const VF small = reinterpret_cast<VF>(shifted + (113u << 23)) - 0x1p-14f;
  const VU value = (reinterpret_cast<VU>(small) & subnormal) | (normal & ~subnormal);
  return reinterpret_cast<VF>(value | ((bits & 0x8000u) << 16));
}
template <Encoding kE>
__attribute__((always_inline)) inline VF NibbleToFloat(VU word) {
  constexpr PanelLayout kL = LayoutOf(kE);
  if constexpr (kL.codes == Codes::kInteger) {
    typedef int32_t VSigned __attribute__((vector_size(sizeof(VU))));
    return __builtin_convertvector(reinterpret_cast<VSigned>(word & 15) - kL.offset, VF);
  } else {
    constexpr const int8_t* kValues = kL.codes == Codes::kIq4 ? kIq4Values : kE2m1Doubled;
    VF values;
    for (int i = 0; i < kLanes; ++i) values[i] = static_cast<float>(kValues[word[i] & 15]);
    return values;
  }
}

#define DI_ISA Isa::kPortable
#define DI_ISA_TEXT "portable"
#include "cpu/kernels/linear/epilogue.inc"
#include "cpu/kernels/linear/f32_core.inc"

}  // namespace

KernelTable LinearTablePortable() {
  return {kRows, static_cast<int>(sizeof(kRows) / sizeof(kRows[0]))};
}

}  // namespace deepinfer::cpu
