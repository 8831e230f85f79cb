// Seeds that differ from start to start. Thread-safe.
#pragma once

#include <cstdint>
#include <random>

namespace deepinfer {

inline uint64_t RandomSeed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace deepinfer
