// The enum and the facts of each op, made from ops.inc. Pure values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace deepinfer::ir {

enum class Op : uint8_t {
#define DI_OP(enumerator, name, kind, min_operands, max_operands, results) enumerator,
#include "ir/ops.inc"
#undef DI_OP
};

inline constexpr int kNumOps = 0
#define DI_OP(enumerator, name, kind, min_operands, max_operands, results) +1
#include "ir/ops.inc"
#undef DI_OP
    ;

enum class OpKind : uint8_t { kPrimitive, kComposite, kStructural, kMutation };

struct OpInfo {
  const char* name;
  OpKind kind;
  int min_operands;
  int max_operands;  // -1: any
  int results;       // -1: any
};

const OpInfo& InfoOf(Op op);
inline const char* ToString(Op op) {
  return InfoOf(op).name;
}
std::optional<Op> ParseOp(std::string_view name);

}  // namespace deepinfer::ir
