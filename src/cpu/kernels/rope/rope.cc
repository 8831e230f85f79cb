#include "cpu/kernels/rope/rope.h"

#include "base/fixed_math.h"
#include "cpu/kernels/pick_isa.h"

namespace deepinfer {

DI_DECLARE_ISA_TABLE(RopeKernels, kRopeF32);
DI_DECLARE_ISA_TABLE(RopeKernels, kRopeBf16);

void RopeTable(const RopeTableArgs& args, int64_t begin, int64_t end) {
  for (int64_t token = begin; token < end; ++token) {
    const float position = static_cast<float>(args.positions[token]);
    for (int64_t i = 0; i < args.half; ++i) {
      // The product is f32 by definition; its cosine is taken in double because f32 angles reach 1e5 and
      // more.
      const float product = position * args.inv_freq[i];
      const SineCosine turn = FixedSineCosine(product);
      args.cos[token * args.half + i] = static_cast<float>(turn.cosine) * args.mscale;
      args.sin[token * args.half + i] = static_cast<float>(turn.sine) * args.mscale;
    }
  }
}

const RopeKernels* ChooseRope(Isa isa, DType activation) {
  if (activation == DType::kF32) return &DI_PICK_ISA(isa, kRopeF32);
  if (activation == DType::kBF16) return &DI_PICK_ISA(isa, kRopeBf16);
  return nullptr;
}

}  // namespace deepinfer
