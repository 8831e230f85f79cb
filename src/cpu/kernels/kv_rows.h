// Rows of a KV cache, as its type has them: the one place where a value becomes f8e4m3fn or a code of 8 bits and back.
//
// For *_simd.cc files, like simd.h: all is inlined and in an anonymous namespace. The bits are those of base/half.h and
// of the decomposition of quantise_rows (ir/composites/attention.cc), on every instruction set. No state.
#pragma once

#include "cpu/kernels/simd.h"

namespace deepinfer {
namespace {

struct F8 {  // e4m3fn
  uint8_t bits;
};
typedef uint8_t B __attribute__((vector_size(kLanes)));
typedef int8_t S __attribute__((vector_size(kLanes)));

// A code of 8 bits as a number; its row's scale comes later.
DI_INLINE F Load(const int8_t* p) {
#if defined(__AVX512F__)
  __m128i codes;
  memcpy(&codes, p, sizeof codes);
  return (F)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes));
#elif defined(__AVX2__)
  float values[kLanes];
  for (int i = 0; i < kLanes; i += 8) {
    const __m128i codes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + i));
    _mm256_storeu_ps(values + i, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes)));
  }
  return Load(values);
#else
  S codes;
  memcpy(&codes, p, sizeof codes);
  return __builtin_convertvector(__builtin_convertvector(codes, I), F);
#endif
}

DI_INLINE F LoadPart(const int8_t* p, int64_t count, float /*fill*/) {
  int8_t padded[kLanes] = {};
  memcpy(padded, p, static_cast<size_t>(count));
  return Load(padded);
}

// The code's bits, put where f16 has them, are an f16 of the value / 256 (biases 7 and 15), subnormals too; only NaN
// has to be made. Multiplying by 256 is exact.
DI_INLINE F Load(const F8* p) {
#if defined(__AVX512F__)
  __m128i codes;
  memcpy(&codes, p, sizeof codes);
  const __m256i high = _mm256_slli_epi16(_mm256_cvtepu8_epi16(codes), 8);
  const __m256i magnitude = _mm256_srli_epi16(_mm256_andnot_si256(_mm256_set1_epi16(-0x8000), high), 1);
  const __m256i nan = _mm256_srli_epi16(_mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x3f80)), 1);
  // magnitude | nan | sign
  const __m256i half =
      _mm256_ternarylogic_epi32(_mm256_or_si256(magnitude, nan), high, _mm256_set1_epi16(-0x8000), 0xf8);
  return (F)_mm512_cvtph_ps(half) * 256.0f;
#elif defined(__AVX2__)
  float values[kLanes];
  for (int i = 0; i < kLanes; i += 8) {
    long long eight;
    memcpy(&eight, p + i, sizeof eight);
    const __m128i high = _mm_unpacklo_epi8(_mm_setzero_si128(), _mm_cvtsi64_si128(eight));
    const __m128i sign = _mm_and_si128(high, _mm_set1_epi16(-0x8000));
    const __m128i magnitude = _mm_srli_epi16(_mm_andnot_si128(_mm_set1_epi16(-0x8000), high), 1);
    const __m128i nan = _mm_srli_epi16(_mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x3f80)), 1);
    const __m256 wide = _mm256_cvtph_ps(_mm_or_si128(_mm_or_si128(magnitude, nan), sign));
    _mm256_storeu_ps(values + i, _mm256_mul_ps(wide, _mm256_set1_ps(256.0f)));
  }
  return Load(values);
#else
  F v;
  for (int i = 0; i < kLanes; ++i) v[i] = F8E4M3ToF32(p[i].bits);
  return v;
#endif
}

// Nearest, ties to even; at most 448 in magnitude; NaN stays NaN.
DI_INLINE void Store(F8* p, F v) {
  const U bits = (U)v & 0x7fffffffu;
  const U bounded = (bits < 0x43e00000u) ? bits : U{} + 0x43e00000u;
  const U normal = ((bounded + 0x7ffffu + ((bounded >> 20) & 1u)) >> 20) - (120u << 3);
  // Below 2^-6 codes count multiples of 2^-9, which is what the last place of 2^14 is worth.
  const U subnormal = (U)((F)bounded + 16384.0f) - 0x46800000u;
  U code = (bounded < 0x3c800000u) ? subnormal : normal;
  code = (bits > 0x7f800000u) ? U{} + 0x7fu : code;
  code |= ((U)v >> 24) & 0x80u;
  const B bytes = __builtin_convertvector(code, B);
  memcpy(p, &bytes, sizeof bytes);
}

template <class From, class To>
DI_INLINE void StoreKvRow(const From* in, To* out, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Store(out + i, Load(in + i));
  if (i < count) StorePart(out + i, LoadPart(in + i, count - i, 0.0f), count - i);
}
template <class T>
DI_INLINE void StoreKvRow(const T* in, T* out, int64_t count) {
  memcpy(out, in, count * sizeof(T));
}

// The largest magnitude of a row; a NaN is larger than infinity.
template <class From>
DI_INLINE float LargestOf(const From* in, int64_t count) {
  I largest = {};
  for (int64_t i = 0; i < count; i += kLanes) {
    const F v = i + kLanes <= count ? Load(in + i) : LoadPart(in + i, count - i, 0.0f);
    const I magnitude = (I)Abs(v);
    largest = (magnitude > largest) ? magnitude : largest;
  }
  int32_t bits = 0;
  for (int i = 0; i < kLanes; ++i) bits = Larger<int32_t>(bits, largest[i]);
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

DI_INLINE S CodesOf(F x, float scale) {
  const F shifted = x / scale + 0.5f;
  const I whole = __builtin_convertvector(shifted, I);  // towards zero; of a NaN it ends in a byte of 0
  const I floor = whole + (__builtin_convertvector(whole, F) > shifted);
  return __builtin_convertvector(floor, S);
}

// A row as codes of 1/127 of its largest magnitude, halves rounded up, with the scale that makes them values again.
template <class From>
DI_INLINE void QuantiseKvRow(const From* in, int8_t* codes, float* scale, int64_t count) {
  const float own = LargestOf(in, count) * (1.0f / 127);
  *scale = own < __FLT_MIN__ ? __FLT_MIN__ : own;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const S eight = CodesOf(Load(in + i), *scale);
    memcpy(codes + i, &eight, sizeof eight);
  }
  if (i < count) {
    const S eight = CodesOf(LoadPart(in + i, count - i, 0.0f), *scale);
    memcpy(codes + i, &eight, static_cast<size_t>(count - i));
  }
}

}  // namespace
}  // namespace deepinfer
