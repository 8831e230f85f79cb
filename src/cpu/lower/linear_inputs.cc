#include "cpu/lower/linear_inputs.h"

namespace deepinfer::cpu {
namespace {

template <class T>
void Gather(const std::vector<int32_t>& order, const T* x, int64_t rows, T* out) {
  for (int64_t row = 0; row < rows; ++row, x += order.size(), out += order.size()) {
    for (size_t i = 0; i < order.size(); ++i) out[i] = x[order[i]];
  }
}

}  // namespace

Encoding EncodingOf(const ir::Type& weight) {
  if (weight.encoding) return *weight.encoding;
  if (weight.dtype == DType::kBF16) return Encoding::kBF16;
  return weight.dtype == DType::kF16 ? Encoding::kF16 : Encoding::kF32;
}

bool SameOrder(const InputOrder& a, const InputOrder& b) {
  return a == b || (a != nullptr && b != nullptr && *a == *b);
}

void OrderInputs(const std::vector<int32_t>& order, DType dtype, const void* x, int64_t rows, void* out) {
  if (dtype == DType::kF32) return Gather(order, static_cast<const float*>(x), rows, static_cast<float*>(out));
  Gather(order, static_cast<const uint16_t*>(x), rows, static_cast<uint16_t*>(out));
}

int64_t OrderedBytes(DType dtype, int64_t rows, int64_t k) {
  return (rows * k * static_cast<int64_t>(SizeOf(dtype)) + 63) / 64 * 64;
}

}  // namespace deepinfer::cpu
