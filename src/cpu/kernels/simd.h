// One vector vocabulary for kernels that are compiled once per instruction set (f32 math; f32, bf16 and f16 in memory).
//
// Only *_simd.cc files include this: CMake compiles each of them for portable, avx2 and avx512 and defines
// DI_ISA_SUFFIX. Everything here is in an anonymous namespace and always inlined, and these files call no inline
// function of another header, because a weak symbol compiled for AVX-512 may be the one the linker keeps for everybody.
// FMA is written as Fma(); on the portable build it is a product and a sum. Reductions have one fixed order per
// instruction set. With DI_FIXED_ORDER vectors have the 16 lanes of AVX-512 and Fma rounds once everywhere, so that the
// bits of every instruction set are those of AVX-512 (portable numerics): the compiler cuts such vectors into what the
// machine has, which is slower. Math follows IEEE except where FTZ/DAZ flush; NaN goes through. No state.
#pragma once

#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "base/half.h"

#define DI_ISA_JOIN_INNER(a, b) a##b
#define DI_ISA_JOIN(a, b) DI_ISA_JOIN_INNER(a, b)
#define DI_ISA_SYMBOL(name) DI_ISA_JOIN(name, DI_ISA_SUFFIX)
#define DI_ISA_TEXT_INNER(text) #text
#define DI_ISA_TEXT(text) DI_ISA_TEXT_INNER(text)
#define DI_ISA_NAME(op) op "_" DI_ISA_TEXT(DI_ISA_SUFFIX)  // "rms_norm_bf16" -> "rms_norm_bf16_Avx2"
#define DI_INLINE inline __attribute__((always_inline))

namespace deepinfer {
namespace {

#if defined(__AVX512F__) || defined(DI_FIXED_ORDER)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float F __attribute__((vector_size(4 * kLanes)));
typedef int32_t I __attribute__((vector_size(4 * kLanes)));
typedef uint32_t U __attribute__((vector_size(4 * kLanes)));
typedef uint16_t H __attribute__((vector_size(2 * kLanes)));

#if defined(__AVX2__) && !defined(__AVX512F__)
constexpr int kParts = kLanes / 8;  // of 8 lanes: one, or the two halves of a vector of fixed order

struct Parts {
  __m256 v[kParts];
};
DI_INLINE Parts Split(F v) {
  Parts parts;
  memcpy(&parts, &v, sizeof v);
  return parts;
}
DI_INLINE F Join(Parts parts) {
  F v;
  memcpy(&v, &parts, sizeof v);
  return v;
}
#endif

struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

template <class T>
DI_INLINE T Smaller(T a, T b) {
  return b < a ? b : a;
}
template <class T>
DI_INLINE T Larger(T a, T b) {
  return a < b ? b : a;
}

DI_INLINE F Set1(float value) {
  return F{} + value;
}
DI_INLINE I Set1(int32_t value) {
  return I{} + value;
}

DI_INLINE F Load(const float* p) {
  F v;
  memcpy(&v, p, sizeof v);
  return v;
}
DI_INLINE void Store(float* p, F v) {
  memcpy(p, &v, sizeof v);
}

DI_INLINE F Load(const Bf16* p) {
  H h;
  memcpy(&h, p, sizeof h);
#if defined(__AVX512F__)
  return (F)((U)_mm512_cvtepu16_epi32((__m256i)h) << 16);  // GCC 12 converts the halves one by one
#else
  return (F)(__builtin_convertvector(h, U) << 16);
#endif
}
// Round to nearest, ties to even; NaN becomes a quiet NaN. The same bits as F32ToBF16.
DI_INLINE void Store(Bf16* p, F v) {
  const U bits = (U)v;
  const U rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const U quiet = (bits >> 16) | 0x40u;
  const H h = __builtin_convertvector((v == v) ? rounded : quiet, H);
  memcpy(p, &h, sizeof h);
}

DI_INLINE F Load(const F16* p) {
#if defined(__AVX512F__)
  __m256i h;
  memcpy(&h, p, sizeof h);
  return (F)_mm512_cvtph_ps(h);
#elif defined(__AVX2__)
  __m128i h[kParts];
  memcpy(h, p, sizeof h);
  Parts parts;
  for (int i = 0; i < kParts; ++i) parts.v[i] = _mm256_cvtph_ps(h[i]);
  return Join(parts);
#else
  F v;
  for (int i = 0; i < kLanes; ++i) v[i] = F16ToF32(p[i].bits);
  return v;
#endif
}
DI_INLINE void Store(F16* p, F v) {
#if defined(__AVX512F__)
  const __m256i h = _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  memcpy(p, &h, sizeof h);
#elif defined(__AVX2__)
  const Parts parts = Split(v);
  __m128i h[kParts];
  for (int i = 0; i < kParts; ++i) h[i] = _mm256_cvtps_ph(parts.v[i], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  memcpy(p, h, sizeof h);
#else
  for (int i = 0; i < kLanes; ++i) p[i].bits = F32ToF16(v[i]);
#endif
}

// The first `count` (< kLanes) lanes; the others load as `fill` and are not stored. So a row's tail takes the same
// operations as its body.
template <class T>
DI_INLINE F LoadPart(const T* p, int64_t count, float fill) {
  T padded[kLanes];
  Store(padded, Set1(fill));
  for (int64_t i = 0; i < count; ++i) padded[i] = p[i];
  return Load(padded);
}
template <class T>
DI_INLINE void StorePart(T* p, F v, int64_t count) {
  T padded[kLanes];
  Store(padded, v);
  for (int64_t i = 0; i < count; ++i) p[i] = padded[i];
}

// a * b + c; rounded once where the machine has FMA, and everywhere in fixed order.
DI_INLINE F Fma(F a, F b, F c) {
#if defined(__AVX512F__)
  return (F)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
  const Parts x = Split(a), y = Split(b), z = Split(c);
  Parts sum;
  for (int i = 0; i < kParts; ++i) sum.v[i] = _mm256_fmadd_ps(x.v[i], y.v[i], z.v[i]);
  return Join(sum);
#elif defined(DI_FIXED_ORDER)
  F sum;
  for (int i = 0; i < kLanes; ++i) sum[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return sum;
#else
  return a * b + c;
#endif
}

// NaN in `b` stays, NaN in `a` does not.
DI_INLINE F Max(F a, F b) {
  return (a > b) ? a : b;
}
DI_INLINE F Min(F a, F b) {
  return (a < b) ? a : b;
}
DI_INLINE F Abs(F a) {
  return (F)((U)a & 0x7fffffffu);
}

DI_INLINE float ReduceAdd(F v) {
  float lanes[kLanes];
  Store(lanes, v);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}
DI_INLINE float ReduceMax(F v) {
  float lanes[kLanes];
  Store(lanes, v);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] = Larger(lanes[i], lanes[i + width]);
  }
  return lanes[0];
}

// e^x within 2 ulp; exactly 1 at 0, 0 below about -103, inf above 88.73. x = n ln2 + r with |r| <= ln2 / 2; the Taylor
// polynomial of degree 7 is then off by less than 6e-9.
DI_INLINE F Exp(F x) {
  x = (x < -104.0f) ? Set1(-104.0f) : x;
  x = (x > 104.0f) ? Set1(104.0f) : x;
  const F magic = Set1(12582912.0f);  // 1.5 * 2^23: adding it leaves the rounded integer in the low mantissa bits
  const F shifted = Fma(x, Set1(1.44269504f), magic);
  const F n = shifted - magic;
  // ln2 in two parts, the first with so few bits that n * part is exact.
  F r = Fma(n, Set1(-0.693359375f), x);
  r = Fma(n, Set1(2.12194440e-4f), r);
  F p = Set1(1.0f / 5040);
  p = Fma(p, r, Set1(1.0f / 720));
  p = Fma(p, r, Set1(1.0f / 120));
  p = Fma(p, r, Set1(1.0f / 24));
  p = Fma(p, r, Set1(1.0f / 6));
  p = Fma(p, r, Set1(0.5f));
  p = Fma(p, r, Set1(1.0f));
  p = Fma(p, r, Set1(1.0f));
  // 2^n in two factors, since n reaches from -150 to 150.
  const I whole = (I)shifted - (I)magic;
  const I half = whole >> 1;
  const F first = (F)((half + 127) << 23);
  const F second = (F)((whole - half + 127) << 23);
  return p * first * second;
}

// tanh within 3 ulp. Near 0 an odd polynomial (fitted at Chebyshev nodes, off by 2e-8), elsewhere from e^2x.
DI_INLINE F Tanh(F x) {
  const F z = x * x;
  F p = Set1(-0.0060898027f);
  p = Fma(p, z, Set1(0.0209924219f));
  p = Fma(p, z, Set1(-0.0538499055f));
  p = Fma(p, z, Set1(0.1333276312f));
  p = Fma(p, z, Set1(-0.3333332888f));
  const F small = Fma(x * z, p, x);
  const F magnitude = Abs(x);
  const F large = 1.0f - 2.0f / (Exp(magnitude + magnitude) + 1.0f);
  const F signed_large = (F)((U)large | ((U)x & 0x80000000u));
  return (magnitude < 0.625f) ? small : signed_large;
}

// Sums of kLanes vectors: lane i of the result is the sum of vector i's lanes, every one in the same tree order.
DI_INLINE F SumEach(const F* v) {
#if defined(__AVX512F__)
  __m512 quads[4];
  for (int q = 0; q < 4; ++q) {
    const __m512 a = (__m512)v[4 * q], b = (__m512)v[4 * q + 1], c = (__m512)v[4 * q + 2], d = (__m512)v[4 * q + 3];
    const __m512d ab = _mm512_castps_pd(_mm512_unpacklo_ps(a, b) + _mm512_unpackhi_ps(a, b));
    const __m512d cd = _mm512_castps_pd(_mm512_unpacklo_ps(c, d) + _mm512_unpackhi_ps(c, d));
    quads[q] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd)) + _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd));
  }
  const __m512 low = _mm512_shuffle_f32x4(quads[0], quads[1], 0x44) + _mm512_shuffle_f32x4(quads[0], quads[1], 0xee);
  const __m512 high = _mm512_shuffle_f32x4(quads[2], quads[3], 0x44) + _mm512_shuffle_f32x4(quads[2], quads[3], 0xee);
  return (F)(_mm512_shuffle_f32x4(low, high, 0x88) + _mm512_shuffle_f32x4(low, high, 0xdd));
#elif defined(DI_FIXED_ORDER)
  F sums;
  for (int i = 0; i < kLanes; ++i) {  // the tree of AVX-512's shuffles, written out
    float quads[4];
    for (int q = 0; q < 4; ++q) quads[q] = (v[i][4 * q] + v[i][4 * q + 2]) + (v[i][4 * q + 1] + v[i][4 * q + 3]);
    sums[i] = (quads[0] + quads[2]) + (quads[1] + quads[3]);
  }
  return sums;
#elif defined(__AVX2__)
  __m256 quads[2];
  for (int q = 0; q < 2; ++q) {
    const __m256 a = (__m256)v[4 * q], b = (__m256)v[4 * q + 1], c = (__m256)v[4 * q + 2], d = (__m256)v[4 * q + 3];
    const __m256d ab = _mm256_castps_pd(_mm256_unpacklo_ps(a, b) + _mm256_unpackhi_ps(a, b));
    const __m256d cd = _mm256_castps_pd(_mm256_unpacklo_ps(c, d) + _mm256_unpackhi_ps(c, d));
    quads[q] = _mm256_castpd_ps(_mm256_unpacklo_pd(ab, cd)) + _mm256_castpd_ps(_mm256_unpackhi_pd(ab, cd));
  }
  return (F)(_mm256_permute2f128_ps(quads[0], quads[1], 0x20) + _mm256_permute2f128_ps(quads[0], quads[1], 0x31));
#else
  const F ab = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5) + __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7);
  const F cd = __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5) + __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
#endif
}

}  // namespace
}  // namespace deepinfer
