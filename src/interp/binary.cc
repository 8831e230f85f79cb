// Elementwise primitives of two operands of one type.
#include <cmath>
#include <limits>

#include "interp/elementwise.h"
#include "interp/storage.h"

namespace deepinfer::interp {
namespace {

template <DType D, class F>
void Block(const void* const* operands, void* result, int64_t n) {
  using S = Storage<D>;
  const auto* a = static_cast<const typename S::T*>(operands[0]);
  const auto* b = static_cast<const typename S::T*>(operands[1]);
  auto* y = static_cast<typename S::T*>(result);
  for (int64_t i = 0; i < n; ++i) y[i] = S::Store(F()(S::Load(a[i]), S::Load(b[i])));
}

// Integers wrap: arithmetic is done on the unsigned type (of at least int's width, so that no promotion overflows).
template <class T>
using Wide = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;

struct Add {
  float operator()(float a, float b) const { return a + b; }
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wide<T>>(a) + static_cast<Wide<T>>(b));
  }
};
struct Sub {
  float operator()(float a, float b) const { return a - b; }
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wide<T>>(a) - static_cast<Wide<T>>(b));
  }
};
struct Mul {
  float operator()(float a, float b) const { return a * b; }
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
  }
};
struct Div {
  float operator()(float a, float b) const { return a / b; }
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return static_cast<T>(-1);
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return Sub()(T{0}, a);  // the lowest value has no positive counterpart: wrap, do not trap
    }
    return static_cast<T>(a / b);
  }
};
struct Rem {
  float operator()(float a, float b) const { return std::fmod(a, b); }
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  }
};
struct Pow {
  float operator()(float a, float b) const { return std::pow(a, b); }
};
// A NaN on either side wins.
struct Max {
  float operator()(float a, float b) const { return a > b || a != a ? a : b; }
  template <class T>
  T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};
struct Min {
  float operator()(float a, float b) const { return a < b || a != a ? a : b; }
  template <class T>
  T operator()(T a, T b) const {
    return a < b ? a : b;
  }
};
struct And {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
// Amounts count as unsigned; one of the width or more shifts everything out.
template <class T>
bool ShiftsAll(T amount) {
  return static_cast<std::make_unsigned_t<T>>(amount) >= std::numeric_limits<std::make_unsigned_t<T>>::digits;
}
struct ShiftLeft {
  template <class T>
  T operator()(T a, T amount) const {
    return ShiftsAll(amount) ? T{0} : static_cast<T>(static_cast<Wide<T>>(a) << amount);
  }
};
struct ShiftRight {
  template <class T>
  T operator()(T a, T amount) const {
    if (ShiftsAll(amount)) return a < 0 ? static_cast<T>(-1) : T{0};
    return static_cast<T>(a >> amount);
  }
};

template <class F>
BlockFunction ForNumber(DType dtype) {
  if (IsFloat(dtype)) return DispatchFloat(dtype, [](auto tag) -> BlockFunction { return Block<tag.value, F>; });
  return DispatchInteger(dtype, [](auto tag) -> BlockFunction { return Block<tag.value, F>; });
}

template <class F>
BlockFunction ForInteger(DType dtype) {
  return DispatchInteger(dtype, [](auto tag) -> BlockFunction { return Block<tag.value, F>; });
}

template <class F>
BlockFunction ForBits(DType dtype) {
  return dtype == DType::kI1 ? Block<DType::kI1, F> : ForInteger<F>(dtype);
}

BlockFunction Choose(ir::Op op, DType dtype) {
  using ir::Op;
  switch (op) {
    case Op::kAdd:
      return ForNumber<Add>(dtype);
    case Op::kSub:
      return ForNumber<Sub>(dtype);
    case Op::kMul:
      return ForNumber<Mul>(dtype);
    case Op::kDiv:
      return ForNumber<Div>(dtype);
    case Op::kRem:
      return ForNumber<Rem>(dtype);
    case Op::kPow:
      return DispatchFloat(dtype, [](auto tag) -> BlockFunction { return Block<tag.value, Pow>; });
    case Op::kMax:
      return ForNumber<Max>(dtype);
    case Op::kMin:
      return ForNumber<Min>(dtype);
    case Op::kAnd:
      return ForBits<And>(dtype);
    case Op::kOr:
      return ForBits<Or>(dtype);
    case Op::kXor:
      return ForBits<Xor>(dtype);
    case Op::kShiftLeft:
      return ForInteger<ShiftLeft>(dtype);
    default:
      return ForInteger<ShiftRight>(dtype);
  }
}

}  // namespace

Prepared PrepareBinary(const PrepareContext& c) {
  return MakeElementwise(c, Choose(c.node.op, c.ResultType().dtype));
}

}  // namespace deepinfer::interp
