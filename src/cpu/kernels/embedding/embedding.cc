#include "cpu/kernels/embedding/embedding.h"

#include <algorithm>

#include "base/half.h"

namespace deepinfer {
namespace {

inline void Put(float* out, float value) {
  *out = value;
}
inline void Put(uint16_t* out, float value) {
  *out = F32ToBF16(value);
}

template <class T>
void Embedding(const EmbeddingArgs& args, int64_t begin, int64_t end) {
  constexpr int64_t kChunk = 1024;  // a multiple of every encoding's block, 4 KB of stack
  float decoded[kChunk];
  const int64_t row_bytes = static_cast<int64_t>(RowBytes(args.encoding, args.width));
  for (int64_t token = begin; token < end; ++token) {
    const int64_t id = std::clamp<int64_t>(args.ids[token], 0, args.vocabulary - 1);
    const char* row = static_cast<const char*>(args.table) + id * row_bytes;
    T* out = static_cast<T*>(args.out) + token * args.width;
    for (int64_t i = 0; i < args.width; i += kChunk) {
      const int64_t count = std::min(kChunk, args.width - i);
      DecodeRow(args.encoding, row + RowBytes(args.encoding, i), decoded, count);
      for (int64_t j = 0; j < count; ++j) Put(out + i + j, decoded[j] * args.scale);
    }
  }
}

constexpr EmbeddingKernels kEmbeddingF32 = {"embedding_f32", Embedding<float>};
constexpr EmbeddingKernels kEmbeddingBf16 = {"embedding_bf16", Embedding<uint16_t>};

}  // namespace

const EmbeddingKernels* ChooseEmbedding(DType activation) {
  if (activation == DType::kF32) return &kEmbeddingF32;
  if (activation == DType::kBF16) return &kEmbeddingBf16;
  return nullptr;
}

}  // namespace deepinfer
