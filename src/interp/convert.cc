// convert: any dtype to any other, rounded once.
#include <bit>
#include <cmath>
#include <limits>

#include "interp/elementwise.h"
#include "interp/storage.h"

namespace deepinfer::interp {
namespace {

// f32 with the lost bits folded into the last one ("round to odd"): rounding the answer again to a type of at most 22
// bits of mantissa gives what one rounding from the integer would have given.
float ToOddF32(int64_t value) {
  const uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  const int excess = 64 - std::countl_zero(magnitude) - 24;
  if (excess <= 0) return static_cast<float>(value);
  uint64_t top = magnitude >> excess;
  if ((top << excess) != magnitude) top |= 1;
  const float result = std::ldexp(static_cast<float>(top), excess);
  return value < 0 ? -result : result;
}

template <class To>
To Saturate(float value) {
  if (value != value) return 0;
  // 2^bits is exact in f32, the largest integer itself may not be.
  const float limit = std::ldexp(1.0f, std::numeric_limits<To>::digits);
  if (value >= limit) return std::numeric_limits<To>::max();
  if (value <= static_cast<float>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
  return static_cast<To>(value);
}

template <DType From, DType To>
typename Storage<To>::T ConvertOne(typename Storage<From>::T x) {
  using S = Storage<To>;
  const auto value = Storage<From>::Load(x);
  if constexpr (To == DType::kI1) {
    return S::Store(value != 0);
  } else if constexpr (std::is_same_v<typename S::C, float>) {
    constexpr bool kNarrow = !std::is_same_v<typename S::T, float>;
    if constexpr (kNarrow && !std::is_same_v<decltype(value), const float> && sizeof(value) >= 4) {
      return S::Store(ToOddF32(static_cast<int64_t>(value)));
    } else {
      return S::Store(static_cast<float>(value));
    }
  } else if constexpr (std::is_same_v<decltype(value), const float>) {
    return Saturate<typename S::C>(value);
  } else {
    return static_cast<typename S::T>(value);
  }
}

template <DType From, DType To>
void Block(const void* const* operands, void* result, int64_t n) {
  const auto* x = static_cast<const typename Storage<From>::T*>(operands[0]);
  auto* y = static_cast<typename Storage<To>::T*>(result);
  for (int64_t i = 0; i < n; ++i) y[i] = ConvertOne<From, To>(x[i]);
}

}  // namespace

Prepared PrepareConvert(const PrepareContext& c) {
  const DType to = c.ResultType().dtype;
  return MakeElementwise(c, DispatchAny(c.OperandType(0).dtype, [to](auto from) -> BlockFunction {
                           return DispatchAny(to, [](auto target) -> BlockFunction {
                             return Block<decltype(from)::value, decltype(target)::value>;
                           });
                         }));
}

}  // namespace deepinfer::interp
