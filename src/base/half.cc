#include "base/half.h"

namespace deepinfer {
namespace {

// value >> shift, rounded to nearest with ties to even. shift is 1..31.
uint32_t ShiftRoundEven(uint32_t value, int shift) {
  const uint32_t half = 1u << (shift - 1);
  const uint32_t odd = (value >> shift) & 1;
  return (value + half - 1 + odd) >> shift;
}

// The bits (without sign) of a small float with `mantissa_bits` and an exponent bias of `bias`, for the magnitude bits
// of a finite f32 above. A carry out of the mantissa moves on to the next exponent by itself; overflow is the caller's.
uint32_t RoundMagnitude(uint32_t magnitude, int mantissa_bits, int bias) {
  const int exponent = static_cast<int>(magnitude >> 23) - 127 + bias;  // the target's biased exponent
  const int drop = 23 - mantissa_bits;
  if (exponent >= 1) {
    return ShiftRoundEven(magnitude - (static_cast<uint32_t>(127 - bias) << 23), drop);
  }
  // Subnormal in the target: the leading one becomes explicit and moves right. f32 subnormals are far below any target.
  const int shift = drop + 1 - exponent;
  if (shift > 25) return 0;
  return ShiftRoundEven((magnitude & 0x7fffffu) | 0x800000u, shift);
}

}  // namespace

float F16ToF32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  if (exponent == 0x1f) {  // a NaN comes out quiet, as it does from the F16C instructions
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13) | (mantissa != 0 ? 0x400000u : 0u));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t F32ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above round to infinity
  return static_cast<uint16_t>(sign | RoundMagnitude(magnitude, /*mantissa_bits=*/10, /*bias=*/15));
}

float F8E4M3ToF32(uint8_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x80u) << 24;
  const uint32_t exponent = (bits >> 3) & 0xfu;
  const uint32_t mantissa = bits & 7u;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-9f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  if ((bits & 0x7fu) == 0x7fu) return std::bit_cast<float>(sign | 0x7fc00000u);
  return std::bit_cast<float>(sign | ((exponent + 120) << 23) | (mantissa << 20));
}

uint8_t F32ToF8E4M3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 24) & 0x80u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);
  if (magnitude >= 0x43e00000u) return static_cast<uint8_t>(sign | 0x7eu);  // 448 and above, infinity too, saturate
  return static_cast<uint8_t>(sign | RoundMagnitude(magnitude, /*mantissa_bits=*/3, /*bias=*/7));
}

}  // namespace deepinfer
