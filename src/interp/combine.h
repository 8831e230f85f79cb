// How reductions combine two values of a computed type (interp/storage.h), and what they start from. For src/interp
// only.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

namespace deepinfer::interp {

struct Sum {
  static float Init(float) { return 0.0f; }
  static float Apply(float a, float b) { return a + b; }
  template <class T>
  static T Init(T) {
    return 0;
  }
  template <class T>
  static T Apply(T a, T b) {
    using U = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
};
template <class T>
constexpr T kLowest =
    std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
template <class T>
constexpr T kHighest = std::is_floating_point_v<T> ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
// A NaN wins.
struct Max {
  template <class T>
  static T Init(T) {
    return kLowest<T>;
  }
  template <class T>
  static T Apply(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
struct Min {
  template <class T>
  static T Init(T) {
    return kHighest<T>;
  }
  template <class T>
  static T Apply(T a, T b) {
    return a < b || a != a ? a : b;
  }
};

}  // namespace deepinfer::interp
