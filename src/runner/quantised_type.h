// Which encoding a matrix gets when a model is quantised. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "base/encoding.h"

namespace deepinfer::runner {

// `type`, but for the head at least 6 bits, and where rows are no whole number of its blocks the nearest encoding with
// blocks of 32 that has no fewer bits. f32 for vectors, and for matrices that have not even whole blocks of 32.
Encoding QuantisedType(Encoding type, const std::vector<int64_t>& shape, bool is_head);

}  // namespace deepinfer::runner
