// Gated activations: out = act(gate) * up, act = silu or gelu (tanh form), over [rows, width].
//
// Math in f32, one rounding to the activation type at the end. Strides in elements, so gate and up may be halves of one
// fused projection; out may be gate or up. The caller splits rows [begin, end) and columns as it likes: elements are
// independent. Thread-safe; allocates nothing. Source: Shazeer 2020, "GLU Variants Improve Transformer".
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/numerics.h"

namespace deepinfer {

enum class Isa : int;

struct GluArgs {
  const void* gate = nullptr;
  int64_t gate_stride = 0;
  const void* up = nullptr;
  int64_t up_stride = 0;
  void* out = nullptr;
  int64_t out_stride = 0;
  int64_t width = 0;
};

struct GluKernels {
  const char* name;  // "glu_bf16_Avx2"
  void (*silu)(const GluArgs& args, int64_t begin, int64_t end);
  void (*gelu_tanh)(const GluArgs& args, int64_t begin, int64_t end);
};

// Activations f32 or bf16; nullptr for others.
const GluKernels* ChooseGlu(Isa isa, DType activation, Numerics numerics = Numerics::kNative);

}  // namespace deepinfer
