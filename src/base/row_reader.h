// Rows of a weight made when they are asked for, where no file holds them as they are wanted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace deepinfer {

// Writes rows [begin, end) of a weight, in its encoding and back to back, to `out`. Thread-safe. Reading 32 rows at
// once costs much less than one after the other where a file has the weight transposed.
using RowReader = std::function<void(int64_t begin, int64_t end, std::byte* out)>;

// Rows may have the weight's inputs in another order: column j is input (*order)[j], a permutation. Null: in their own.
using InputOrder = std::shared_ptr<const std::vector<int32_t>>;

}  // namespace deepinfer
