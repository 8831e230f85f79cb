// Single blocks of quantised encodings, for encoding.cc. Blocks need no alignment. Thread-safe, no state.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/encoding.h"

namespace deepinfer {

// The block_elements values of one block. Plain encodings have no blocks: asking for one is a bug.
void DecodeBlock(Encoding encoding, const uint8_t* src, float* dst);
void EncodeBlock(Encoding encoding, const float* src, uint8_t* dst);
// Those of EncodeBlock's encodings that search for scales.
void EncodeSearchedBlock(Encoding encoding, const float* src, uint8_t* dst);
// The blocks of `elements` values (a multiple of 32) under one scale: fp8, int8, int4.
void EncodeRun(Encoding encoding, const float* src, int64_t elements, uint8_t* dst);

inline uint16_t LoadBits16(const uint8_t* src) {
  uint16_t bits;
  std::memcpy(&bits, src, sizeof(bits));
  return bits;
}
inline void StoreBits16(uint8_t* dst, uint16_t bits) {
  std::memcpy(dst, &bits, sizeof(bits));
}

// Stores `value`, clamped, as f16 and returns what was stored.
float StoreF16(uint8_t* dst, float value);
// The low nibbles of 32 codes: code j of the first half in the low nibble of byte j, code 16 + j in its high one.
void PackNibbles(const uint8_t* q, uint8_t* nibbles);

}  // namespace deepinfer
