// Rows of a weight made when they are asked for, where no file holds them as they are wanted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace deepinfer {

// Writes rows [begin, end) of a weight, in its encoding and back to back, to `out`. Thread-safe. Reading 32 rows at
// once costs much less than one after the other where a file has the weight transposed.
using RowReader = std::function<void(int64_t begin, int64_t end, std::byte* out)>;

}  // namespace deepinfer
