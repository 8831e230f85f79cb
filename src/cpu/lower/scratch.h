// Cuts scratch into parts that start on cache lines. The same calls with null find out how much is needed. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

namespace deepinfer::cpu {

// The next part, of so many bytes, after *used of them; null if start is.
inline std::byte* TakeScratch(std::byte* start, int64_t bytes, int64_t* used) {
  std::byte* at = start == nullptr ? nullptr : start + *used;
  *used += (bytes + 63) / 64 * 64;
  return at;
}

}  // namespace deepinfer::cpu
