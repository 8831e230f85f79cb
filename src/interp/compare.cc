// compare and select.
#include "interp/elementwise.h"
#include "interp/storage.h"

namespace deepinfer::interp {
namespace {

template <DType D, class F>
void CompareBlock(const void* const* operands, void* result, int64_t n) {
  using S = Storage<D>;
  const auto* a = static_cast<const typename S::T*>(operands[0]);
  const auto* b = static_cast<const typename S::T*>(operands[1]);
  auto* y = static_cast<uint8_t*>(result);
  for (int64_t i = 0; i < n; ++i) y[i] = F()(S::Load(a[i]), S::Load(b[i])) ? 1 : 0;
}

struct Eq {
  bool operator()(auto a, auto b) const { return a == b; }
};
struct Ne {
  bool operator()(auto a, auto b) const { return a != b; }
};
struct Lt {
  bool operator()(auto a, auto b) const { return a < b; }
};
struct Le {
  bool operator()(auto a, auto b) const { return a <= b; }
};
struct Gt {
  bool operator()(auto a, auto b) const { return a > b; }
};
struct Ge {
  bool operator()(auto a, auto b) const { return a >= b; }
};

template <class F>
BlockFunction Compare(DType dtype) {
  return DispatchAny(dtype, [](auto tag) -> BlockFunction { return CompareBlock<tag.value, F>; });
}

template <class T>
void SelectBlock(const void* const* operands, void* result, int64_t n) {
  const auto* condition = static_cast<const uint8_t*>(operands[0]);
  const auto* a = static_cast<const T*>(operands[1]);
  const auto* b = static_cast<const T*>(operands[2]);
  auto* y = static_cast<T*>(result);
  for (int64_t i = 0; i < n; ++i) {
    // Both sides are read first, so that the loop has no branch and becomes vector code.
    const T yes = a[i];
    const T no = b[i];
    y[i] = condition[i] != 0 ? yes : no;
  }
}

}  // namespace

Prepared PrepareCompare(const PrepareContext& c) {
  const DType dtype = c.OperandType(0).dtype;
  const std::string direction = c.node.Str("direction");
  if (direction == "eq") return MakeElementwise(c, Compare<Eq>(dtype));
  if (direction == "ne") return MakeElementwise(c, Compare<Ne>(dtype));
  if (direction == "lt") return MakeElementwise(c, Compare<Lt>(dtype));
  if (direction == "le") return MakeElementwise(c, Compare<Le>(dtype));
  if (direction == "gt") return MakeElementwise(c, Compare<Gt>(dtype));
  return MakeElementwise(c, Compare<Ge>(dtype));
}

Prepared PrepareSelect(const PrepareContext& c) {
  switch (SizeOf(c.ResultType().dtype)) {
    case 1:
      return MakeElementwise(c, SelectBlock<uint8_t>);
    case 2:
      return MakeElementwise(c, SelectBlock<uint16_t>);
    case 4:
      return MakeElementwise(c, SelectBlock<uint32_t>);
    default:
      return MakeElementwise(c, SelectBlock<uint64_t>);
  }
}

}  // namespace deepinfer::interp
