// Reading 32 k of one row of a quantised weight as the integers and scales that pack.cc spreads over a panel.
//
// Codes are as stored: no offset is removed, no table applied. Rows need no alignment. Pure, thread-safe.
#pragma once

#include <cstdint>

#include "base/encoding.h"
#include "cpu/kernels/linear/packed_layout.h"

namespace deepinfer::cpu {

struct ColumnBlock {
  uint8_t q[kBlockK];
  uint16_t d = 0;      // f16 scale, of the super-block if there is one
  uint16_t m = 0;      // f16 minimum, dmin of a super-block, or zero point
  float scale = 0;     // f32 scale of fp8 and int8; NaN if a code is NaN
  uint8_t sc[2] = {};  // scale of the sub-block, or of its two halves; exponent of mxfp4
  uint8_t mn[2] = {};
};

// Block `block` of 32 k of a source row, of any quantised encoding.
void ReadSourceBlock(Encoding encoding, const uint8_t* row, int64_t block, ColumnBlock* out);

}  // namespace deepinfer::cpu
