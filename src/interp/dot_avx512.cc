// Sixteen lanes: AVX-512F, 16 of 32 registers hold sums. Compiled with flags of its own; nothing here may be inline in
// another file.
#include <immintrin.h>

#include "interp/dot_kernel.h"

namespace deepinfer::interp {
namespace {

using V = __m512;
constexpr int kLanes = 16;
constexpr int kRows = 8;

inline V Broadcast(float x) {
  return _mm512_set1_ps(x);
}
inline V Load(const float* p) {
  return _mm512_loadu_ps(p);
}
inline void Store(float* p, V v) {
  _mm512_storeu_ps(p, v);
}
inline V MulAdd(V a, V b, V c) {
  return _mm512_fmadd_ps(a, b, c);
}

#include "interp/dot_core.inc"

}  // namespace

DotKernel DotAvx512() {
  return {kVectors * kLanes, AllRows};
}

}  // namespace deepinfer::interp
