// Counter-based random numbers: the draw of a token is a function of (seed, choice, position) and of nothing else, so
// the same request gives the same tokens alone, batched, streamed or restarted. Philox 4x32-10: Salmon et al. 2011,
// "Parallel random numbers: as easy as 1, 2, 3". Pure.
#pragma once

#include <array>
#include <cstdint>

namespace deepinfer::engine {

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// What is drawn at a position; independent of each other.
enum class Draw { kToken, kXtc };

// In [0, 1), a multiple of 2^-24: every value is exact in f32.
float Uniform(uint64_t seed, uint32_t choice, uint64_t position, Draw draw = Draw::kToken);

}  // namespace deepinfer::engine
