// How a weight's bytes are laid out: plain floats or block quantisation.
//
// A row of a weight is a whole number of blocks. DecodeRow is the definition of what the bytes mean: every kernel is
// tested against it. fp8, int8 and int4 have runs: all blocks in the same 128 elements of a row, counted from its
// start, hold the same scale (and zero point). Rows need not end with a whole run. Thread-safe (no state).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace deepinfer {

enum class Encoding : uint8_t {
#define DI_ENCODING(enumerator, name, elements, bytes) enumerator,
#include "base/encodings.inc"
#undef DI_ENCODING
};

inline constexpr int64_t kRunElements = 128;

struct EncodingInfo {
  const char* name;
  int block_elements;
  int block_bytes;
};

inline constexpr int kNumEncodings = 0
#define DI_ENCODING(enumerator, name, elements, bytes) +1
#include "base/encodings.inc"
#undef DI_ENCODING
    ;

const EncodingInfo& InfoOf(Encoding encoding);
inline const char* ToString(Encoding encoding) {
  return InfoOf(encoding).name;
}
std::optional<Encoding> ParseEncoding(std::string_view name);
inline bool IsQuantised(Encoding encoding) {
  return InfoOf(encoding).block_elements > 1;
}
// Whether the blocks of 128 elements share their scale.
inline bool HasRuns(Encoding encoding) {
  return encoding == Encoding::kFP8 || encoding == Encoding::kInt8 || encoding == Encoding::kInt4;
}

// Bytes of a row of `elements` (a multiple of the block).
size_t RowBytes(Encoding encoding, int64_t elements);

// Decodes `elements` values (a multiple of the block) to f32. src may be any block of a row and needs no alignment.
void DecodeRow(Encoding encoding, const void* src, float* dst, int64_t elements);

// Encodes `elements` values (a multiple of the block) from the start of a row. q8_0, q4_0, q4_1, q5_0, q5_1, fp8, int8
// and int4 take scales from the range of the values; the others search for scales of small squared error. NaN and
// values out of range become some finite code. Deterministic.
void EncodeRow(Encoding encoding, const float* src, void* dst, int64_t elements);

}  // namespace deepinfer
