// Compiled once per instruction set; see simd.h.
#include "cpu/kernels/elementwise/elementwise_tables.h"
#include "cpu/kernels/simd.h"

namespace deepinfer {
namespace {

struct Add {
  DI_INLINE static F Of(F a, F b) { return a + b; }
};
struct Sub {
  DI_INLINE static F Of(F a, F b) { return a - b; }
};
struct Mul {
  DI_INLINE static F Of(F a, F b) { return a * b; }
};
struct Div {
  DI_INLINE static F Of(F a, F b) { return a / b; }
};
struct Maximum {
  DI_INLINE static F Of(F a, F b) { return (a == a) ? Max(a, b) : a; }
};
struct Minimum {
  DI_INLINE static F Of(F a, F b) { return (a == a) ? Min(a, b) : a; }
};

template <class Op, class T>
void Binary(const void* a_bytes, const void* b_bytes, void* out_bytes, int64_t begin, int64_t end) {
  const T* a = static_cast<const T*>(a_bytes);
  const T* b = static_cast<const T*>(b_bytes);
  T* out = static_cast<T*>(out_bytes);
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) Store(out + i, Op::Of(Load(a + i), Load(b + i)));
  if (i < end) {
    const int64_t rest = end - i;
    StorePart(out + i, Op::Of(LoadPart(a + i, rest, 1.0f), LoadPart(b + i, rest, 1.0f)), rest);
  }
}

template <class From, class To>
void Convert(const void* in_bytes, void* out_bytes, int64_t begin, int64_t end) {
  const From* in = static_cast<const From*>(in_bytes);
  To* out = static_cast<To*>(out_bytes);
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) Store(out + i, Load(in + i));
  if (i < end) StorePart(out + i, LoadPart(in + i, end - i, 0.0f), end - i);
}

}  // namespace

#define DI_BINARY(T, type)                                                                            \
  {                                                                                                   \
      {DI_ISA_NAME("add_" type), Binary<Add, T>},     {DI_ISA_NAME("sub_" type), Binary<Sub, T>},     \
      {DI_ISA_NAME("mul_" type), Binary<Mul, T>},     {DI_ISA_NAME("div_" type), Binary<Div, T>},     \
      {DI_ISA_NAME("max_" type), Binary<Maximum, T>}, {DI_ISA_NAME("min_" type), Binary<Minimum, T>}, \
  }
#define DI_CONVERT(T, type)                                     \
  {                                                             \
      {DI_ISA_NAME("convert_" type "_f32"), Convert<T, float>}, \
      {DI_ISA_NAME("convert_" type "_bf16"), Convert<T, Bf16>}, \
      {DI_ISA_NAME("convert_" type "_f16"), Convert<T, F16>},   \
  }

extern const ElementwiseTable DI_ISA_SYMBOL(kElementwise);
const ElementwiseTable DI_ISA_SYMBOL(kElementwise) = {
    DI_BINARY(float, "f32"),
    DI_BINARY(Bf16, "bf16"),
    {DI_CONVERT(float, "f32"), DI_CONVERT(Bf16, "bf16"), DI_CONVERT(F16, "f16")},
};

}  // namespace deepinfer
