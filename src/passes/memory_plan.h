// Places values with known lifetimes in one arena.
//
// A lifetime [first, last] counts launches, both ends included: two values may share bytes only if one's last use comes
// before the other's first. Greedy by size, first fit: largest values are placed first, each at the lowest offset free
// for its whole life. Deterministic. CheckPlan proves a plan; it is also what tests break on purpose. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace deepinfer::passes {

struct Lifetime {
  std::string name;
  int64_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  // by value
  int64_t bytes = 0;             // of the arena
};

inline constexpr int64_t kArenaAlignment = 64;  // a cache line, and a whole AVX-512 register

MemoryPlan PlanMemory(const std::vector<Lifetime>& values);
// Fails, naming both, if two values that live at the same time overlap, or if one lies outside the arena.
Status CheckPlan(const std::vector<Lifetime>& values, const MemoryPlan& plan);

}  // namespace deepinfer::passes
