// Eight lanes: AVX2 and FMA, 12 of 16 registers hold sums. Compiled with flags of its own; nothing here may be inline
// in another file.
#include <immintrin.h>

#include "interp/dot_kernel.h"

namespace deepinfer::interp {
namespace {

using V = __m256;
constexpr int kLanes = 8;
constexpr int kRows = 6;

inline V Broadcast(float x) {
  return _mm256_set1_ps(x);
}
inline V Load(const float* p) {
  return _mm256_loadu_ps(p);
}
inline void Store(float* p, V v) {
  _mm256_storeu_ps(p, v);
}
inline V MulAdd(V a, V b, V c) {
  return _mm256_fmadd_ps(a, b, c);
}

#include "interp/dot_core.inc"

}  // namespace

DotKernel DotAvx2() {
  return {kVectors * kLanes, AllRows};
}

}  // namespace deepinfer::interp
