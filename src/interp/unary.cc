// Elementwise primitives of one operand. Transcendental ones are rounded once, from bits that every machine has.
#include <cmath>

#include "base/fixed_math.h"
#include "interp/elementwise.h"
#include "interp/storage.h"

namespace deepinfer::interp {
namespace {

template <DType D, class F>
void Block(const void* const* operands, void* result, int64_t n) {
  using S = Storage<D>;
  const auto* x = static_cast<const typename S::T*>(operands[0]);
  auto* y = static_cast<typename S::T*>(result);
  for (int64_t i = 0; i < n; ++i) y[i] = S::Store(F()(S::Load(x[i])));
}

struct Neg {
  float operator()(float x) const { return -x; }
  template <class T>
  T operator()(T x) const {
    return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(x));
  }
};
struct Abs {
  float operator()(float x) const { return std::fabs(x); }
  template <class T>
  T operator()(T x) const {
    return x < 0 ? Neg()(x) : x;
  }
};
struct Not {
  bool operator()(bool x) const { return !x; }
  template <class T>
  T operator()(T x) const {
    return static_cast<T>(~x);
  }
};
struct Exp {
  float operator()(float x) const { return static_cast<float>(FixedExp(x)); }
};
struct Log {
  float operator()(float x) const { return static_cast<float>(FixedLog(x)); }
};
struct Tanh {
  float operator()(float x) const {
    if (std::fabs(x) < 1e-3f) return static_cast<float>(x - double{x} * x * x * (1.0 / 3 - double{x} * x * (2.0 / 15)));
    const double e = FixedExp(-2 * std::fabs(double{x}));
    return static_cast<float>(std::copysign((1 - e) / (1 + e), x));
  }
};
struct Sqrt {
  float operator()(float x) const { return std::sqrt(x); }
};
struct Rsqrt {
  float operator()(float x) const { return 1.0f / std::sqrt(x); }
};
struct Sin {
  float operator()(float x) const { return static_cast<float>(FixedSineCosine(x).sine); }
};
struct Cos {
  float operator()(float x) const { return static_cast<float>(FixedSineCosine(x).cosine); }
};
struct Logistic {
  float operator()(float x) const { return static_cast<float>(1 / (1 + FixedExp(-double{x}))); }
};
struct Floor {
  float operator()(float x) const { return std::floor(x); }
};

template <class F>
BlockFunction ForFloat(DType dtype) {
  return DispatchFloat(dtype, [](auto tag) -> BlockFunction { return Block<tag.value, F>; });
}

template <class F>
BlockFunction ForInteger(DType dtype) {
  return DispatchInteger(dtype, [](auto tag) -> BlockFunction { return Block<tag.value, F>; });
}

BlockFunction Choose(ir::Op op, DType dtype) {
  using ir::Op;
  switch (op) {
    case Op::kNeg:
      return IsFloat(dtype) ? ForFloat<Neg>(dtype) : ForInteger<Neg>(dtype);
    case Op::kAbs:
      return IsFloat(dtype) ? ForFloat<Abs>(dtype) : ForInteger<Abs>(dtype);
    case Op::kNot:
      return dtype == DType::kI1 ? Block<DType::kI1, Not> : ForInteger<Not>(dtype);
    case Op::kExp:
      return ForFloat<Exp>(dtype);
    case Op::kLog:
      return ForFloat<Log>(dtype);
    case Op::kTanh:
      return ForFloat<Tanh>(dtype);
    case Op::kSqrt:
      return ForFloat<Sqrt>(dtype);
    case Op::kRsqrt:
      return ForFloat<Rsqrt>(dtype);
    case Op::kSin:
      return ForFloat<Sin>(dtype);
    case Op::kCos:
      return ForFloat<Cos>(dtype);
    case Op::kLogistic:
      return ForFloat<Logistic>(dtype);
    default:
      return ForFloat<Floor>(dtype);
  }
}

}  // namespace

Prepared PrepareUnary(const PrepareContext& c) {
  return MakeElementwise(c, Choose(c.node.op, c.ResultType().dtype));
}

}  // namespace deepinfer::interp
