// Single blocks of quantised encodings, for encoding.cc. Blocks need no alignment. Thread-safe, no state.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/encoding.h"

namespace deepinfer {

// The block_elements values of one block. Plain encodings have no blocks: asking for one is a bug.
void DecodeBlock(Encoding encoding, const uint8_t* src, float* dst);
void EncodeBlock(Encoding encoding, const float* src, uint8_t* dst);

inline uint16_t LoadBits16(const uint8_t* src) {
  uint16_t bits;
  std::memcpy(&bits, src, sizeof(bits));
  return bits;
}
inline void StoreBits16(uint8_t* dst, uint16_t bits) {
  std::memcpy(dst, &bits, sizeof(bits));
}

}  // namespace deepinfer
