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
// has to be made. That is what this loads where the machine converts f16; multiplying by kF8Scale is exact.
#if defined(__AVX512F__)
constexpr float kF8Scale = 256;
DI_INLINE F LoadScaled(const F8* p) {
  __m128i codes;
  memcpy(&codes, p, sizeof codes);
  // 15: sign, 14: sign again, 13 to 7: magnitude. One more in bit 7 flips bit 14 for NaN alone, whose exponent it is.
  const __m256i high = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
  const __m256i more = _mm256_add_epi16(high, _mm256_set1_epi16(0x80));
  const __m256i bit = _mm256_set1_epi16(0x4000);
  // bit ? high ^ more : high
  return (F)_mm512_cvtph_ps(_mm256_ternarylogic_epi32(high, more, bit, 0x78));
}
#elif defined(__AVX2__)
constexpr float kF8Scale = 256;
DI_INLINE F LoadScaled(const F8* p) {
  float values[kLanes];
  for (int i = 0; i < kLanes; i += 8) {
    long long eight;
    memcpy(&eight, p + i, sizeof eight);
    const __m128i high = _mm_slli_epi16(_mm_cvtepi8_epi16(_mm_cvtsi64_si128(eight)), 7);
    const __m128i more = _mm_add_epi16(high, _mm_set1_epi16(0x80));
    const __m128i bit = _mm_set1_epi16(0x4000);
    const __m128i half = _mm_xor_si128(_mm_andnot_si128(bit, high), _mm_and_si128(bit, _mm_xor_si128(high, more)));
    _mm256_storeu_ps(values + i, _mm256_cvtph_ps(half));
  }
  return Load(values);
}
#else
constexpr float kF8Scale = 1;
DI_INLINE F LoadScaled(const F8* p) {
  F v;
  for (int i = 0; i < kLanes; ++i) v[i] = F8E4M3ToF32(p[i].bits);
  return v;
}
#endif
DI_INLINE F Load(const F8* p) {
  return LoadScaled(p) * kF8Scale;
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

// Values for an attention's sums: v / kValueScale, a power of two that the weights take instead.
template <class T>
constexpr float kValueScale = __is_same(T, F8) ? kF8Scale : 1;
template <class T>
DI_INLINE F LoadValue(const T* p) {
  if constexpr (__is_same(T, F8)) {
    return LoadScaled(p);
  } else {
    return Load(p);
  }
}

#if defined(__AVX512BF16__)
// Bf16 holds codes of 8 bits exactly. Its two bytes are looked up by the magnitude, in tables of 128.
struct BytePlanes {
  __m512i low[2], high[2];
};

struct ByteTables {
  uint8_t low[128], high[128];
};
constexpr uint32_t Bf16OfSmall(uint32_t n) {  // below 128
  if (n == 0) return 0;
  uint32_t exponent = 0;
  while (n >> (exponent + 1) != 0) ++exponent;
  return (127 + exponent) << 7 | ((n << (7 - exponent)) & 0x7f);
}
constexpr uint32_t Bf16OfCode(uint32_t code, bool f8) {
  if (!f8) return Bf16OfSmall(code);
  if (code == 0x7f) return 0x7fc0;
  if (code >= 8) return ((code >> 3) - 7 + 127) << 7 | (code & 7) << 4;
  return code == 0 ? 0 : Bf16OfSmall(code) - (9 << 7);  // multiples of 2^-9
}
constexpr ByteTables MakeByteTables(bool f8) {
  ByteTables tables = {};
  for (uint32_t code = 0; code < 128; ++code) {
    tables.low[code] = static_cast<uint8_t>(Bf16OfCode(code, f8));
    tables.high[code] = static_cast<uint8_t>(Bf16OfCode(code, f8) >> 8);
  }
  return tables;
}
alignas(64) constexpr ByteTables kF8Bytes = MakeByteTables(true);
alignas(64) constexpr ByteTables kI8Bytes = MakeByteTables(false);

template <class T>
DI_INLINE BytePlanes PlanesOf() {
  BytePlanes planes;
  const ByteTables& tables = __is_same(T, F8) ? kF8Bytes : kI8Bytes;
  memcpy(planes.low, tables.low, sizeof planes.low);
  memcpy(planes.high, tables.high, sizeof planes.high);
  return planes;
}

// Codes a, b, c, d of each lane as pairs of bf16: (a, b) and (c, d).
template <class T>
DI_INLINE void WidenCodes(const BytePlanes& planes, __m512i codes, __m512i* pairs) {
  const __m512i sign = _mm512_set1_epi8(-128);
  codes = _mm512_shuffle_epi8(codes, _mm512_set4_epi32(0x0f0d0e0c, 0x0b090a08, 0x07050604, 0x03010200));  // a, c, b, d
  __m512i magnitude = codes;
  if constexpr (!__is_same(T, F8)) magnitude = _mm512_abs_epi8(codes);
  const __m512i low = _mm512_permutex2var_epi8(planes.low[0], magnitude, planes.low[1]);
  __m512i high = _mm512_permutex2var_epi8(planes.high[0], magnitude, planes.high[1]);
  high = _mm512_ternarylogic_epi32(high, codes, sign, 0xf8);  // high | (codes & sign)
  if constexpr (!__is_same(T, F8)) {
    high = _mm512_mask_mov_epi8(high, _mm512_movepi8_mask(magnitude), _mm512_set1_epi8(-61));  // -128 = 0xc300
  }
  pairs[0] = _mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaa, low, _mm512_slli_epi16(high, 8));
  pairs[1] = _mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaa, _mm512_srli_epi16(low, 8), high);
}
#endif

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
