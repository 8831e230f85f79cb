// The f32 core for any machine: 4 lanes of GCC's vector extensions, multiply and add rounded separately.
#include "cpu/kernels/linear/linear_internal.h"

namespace deepinfer::cpu {
namespace {

#include "cpu/kernels/linear/lanes_portable.inc"

constexpr int kTileRows = 4;
constexpr int kMaxGemvRows = 1;

__attribute__((always_inline)) inline VF Fma(VF a, VF b, VF c) {
  return a * b + c;
}  // -ffp-contract=off
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
#include "cpu/kernels/linear/tile_order.inc"

}  // namespace

KernelTable LinearTablePortable() {
  return {kRows, static_cast<int>(sizeof(kRows) / sizeof(kRows[0]))};
}
KernelTable OrderedTablePortable() {
  return {kOrderedRows, static_cast<int>(sizeof(kOrderedRows) / sizeof(kOrderedRows[0]))};
}

}  // namespace deepinfer::cpu
