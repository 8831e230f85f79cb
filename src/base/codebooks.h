// What the 4-bit codes of some encodings stand for. Sources: ggml's block formats (iq4_nl, iq4_xs); the OCP
// Microscaling Formats specification 1.0 (E2M1, of mxfp4).
//
// Included by files compiled for one instruction set: internal linkage only. Constants.
#pragma once

#include <cstdint>

namespace deepinfer {

static constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// Twice the value of an E2M1 code {sign; 2 exponent bits; 1 mantissa bit}: all are integers.
static constexpr int8_t kE2m1Doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace deepinfer
