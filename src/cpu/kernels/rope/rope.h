// Rotary position embedding: the table of cosines and sines, and the rotation of heads by it.
//
// Table: angle = float(position) * inv_freq as an f32 product, cos and sin of that product (correctly rounded in all
// but rare ties), times mscale. Rotation: the first 2h of a head's D dimensions turn, the rest is copied; pairs are (i,
// i + h), or (2i, 2i + 1) when interleaved. f32 math, one rounding. out may be x. The caller splits tokens [begin, end)
// as it likes. Thread-safe; allocates nothing. Source: Su et al. 2021, "RoFormer".
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace deepinfer {

enum class Isa : int;

struct RopeTableArgs {
  const int32_t* positions = nullptr;  // [tokens]
  const float* inv_freq = nullptr;     // [half]
  int64_t half = 0;
  float mscale = 1;
  float* cos = nullptr;  // [tokens, half]
  float* sin = nullptr;
};
void RopeTable(const RopeTableArgs& args, int64_t begin, int64_t end);

struct RopeArgs {
  const void* x = nullptr;  // heads of D contiguous elements; tokens x_stride elements apart
  int64_t x_stride = 0;
  void* out = nullptr;
  int64_t out_stride = 0;
  int64_t heads = 0;
  int64_t head_size = 0;       // D >= 2 * half
  const float* cos = nullptr;  // [tokens, half]
  const float* sin = nullptr;
  int64_t half = 0;
  bool interleaved = false;
};

struct RopeKernels {
  const char* name;  // "rope_bf16_Avx2"
  void (*rope)(const RopeArgs& args, int64_t begin, int64_t end);
};

// Activations f32 or bf16; nullptr for others.
const RopeKernels* ChooseRope(Isa isa, DType activation);

}  // namespace deepinfer
