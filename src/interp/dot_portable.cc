// Four lanes with the compiler's own vectors: SSE2 on x86-64, NEON on ARM.
#include <cstring>

#include "interp/dot_kernel.h"

namespace deepinfer::interp {
namespace {

using V = float __attribute__((vector_size(16)));
constexpr int kLanes = 4;
constexpr int kRows = 4;

inline V Broadcast(float x) {
  return V{x, x, x, x};
}
inline V Load(const float* p) {
  V v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
inline void Store(float* p, V v) {
  std::memcpy(p, &v, sizeof(v));
}
inline V MulAdd(V a, V b, V c) {
  return a * b + c;
}

#include "interp/dot_core.inc"

}  // namespace

DotKernel DotPortable() {
  return {kVectors * kLanes, AllRows};
}

}  // namespace deepinfer::interp
