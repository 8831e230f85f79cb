// Milliseconds since a moment, as the commands report them. Thread-safe.
#pragma once

#include <chrono>

namespace deepinfer::cli {

inline double Ms(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

inline double MsSince(std::chrono::steady_clock::time_point start) {
  return Ms(std::chrono::steady_clock::now() - start);
}

}  // namespace deepinfer::cli
