#include "ir/callees.h"

namespace deepinfer::ir {

std::vector<std::string> CalleesOf(const Node& node) {
  switch (node.op) {
    case Op::kCall:
      return {node.Str("callee")};
    case Op::kBreak:
      return {node.Str("body")};
    case Op::kCase:
      return node.Strs("branches");
    default:
      return {};
  }
}

}  // namespace deepinfer::ir
