// The inner product tile of dot_general, one variant per instruction set. For src/interp only.
//
// tile(a, lda, b, ldb, c, ldc, m, k, first): c[m][columns] = (first ? 0 : c) + a[m][k] . b[k][columns], f32. Element by
// element this is one chain over ascending k (fused multiply-add where the machine has it), so the bits of a row depend
// on nothing but the row and b. Lines of a and of b are contiguous. Thread-safe, no state.
#pragma once

#include <cstdint>

namespace deepinfer::interp {

struct DotKernel {
  int64_t columns;
  void (*tile)(const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc, int64_t m, int64_t k,
               bool first);
};

inline constexpr int64_t kMaxDotColumns = 32;

DotKernel DotPortable();
#if defined(__x86_64__)
DotKernel DotAvx2();
DotKernel DotAvx512();
#endif

}  // namespace deepinfer::interp
