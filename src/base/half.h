// Conversions between f32 and the 16- and 8-bit floats. Round to nearest, ties to even. Thread-safe, no state.
// f8e4m3fn saturates at +-448 (NaN stays NaN), as weights and KV caches want it; 0x7F and 0xFF decode to NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace deepinfer {

inline float BF16ToF32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t F32ToBF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40);  // quiet NaN
  bits += 0x7fffu + ((bits >> 16) & 1);
  return static_cast<uint16_t>(bits >> 16);
}

float F16ToF32(uint16_t bits);
uint16_t F32ToF16(float value);
float F8E4M3ToF32(uint8_t bits);
uint8_t F32ToF8E4M3(float value);

}  // namespace deepinfer
