// Token embedding: out[t] = round(decode(table row of ids[t]) * scale).
//
// The table is [vocabulary, width] in any weight encoding, width a multiple of the encoding's block; an id outside
// [0, vocabulary) is clamped into it. Activations f32 or bf16. The caller splits tokens [begin, end) as it likes.
// Thread-safe; allocates nothing.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/encoding.h"

namespace deepinfer {

struct EmbeddingArgs {
  const int32_t* ids = nullptr;
  const void* table = nullptr;
  Encoding encoding = Encoding::kF32;
  int64_t vocabulary = 0;
  int64_t width = 0;
  float scale = 1;
  void* out = nullptr;  // [tokens, width]
};

struct EmbeddingKernels {
  const char* name;  // "embedding_bf16"
  void (*embedding)(const EmbeddingArgs& args, int64_t begin, int64_t end);
};

// Activations f32 or bf16; nullptr for others. One kernel serves every instruction set: DecodeRow is the work.
const EmbeddingKernels* ChooseEmbedding(DType activation);

}  // namespace deepinfer
