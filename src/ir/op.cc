#include "ir/op.h"

#include <array>

namespace deepinfer::ir {
namespace {

constexpr std::array<OpInfo, kNumOps> kOps = {{
#define DI_OP(enumerator, name, kind, min_operands, max_operands, results) \
  {name, OpKind::kind, min_operands, max_operands, results},
#include "ir/ops.inc"
#undef DI_OP
}};

}  // namespace

const OpInfo& InfoOf(Op op) {
  return kOps[static_cast<size_t>(op)];
}

std::optional<Op> ParseOp(std::string_view name) {
  for (int i = 0; i < kNumOps; ++i) {
    if (name == kOps[i].name) return static_cast<Op>(i);
  }
  return std::nullopt;
}

}  // namespace deepinfer::ir
