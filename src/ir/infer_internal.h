// Shared by the files of inference: error making and dimension merging. Not for other rooms.
#pragma once

#include <utility>
#include <vector>

#include "base/error.h"
#include "ir/graph.h"

namespace deepinfer::ir::internal {

using Types = std::vector<Type>;

struct InferContext {
  const Module& module;
  const Node& node;
  const Types& operands;
  const Types& declared;
};

template <class... Args>
tl::unexpected<Error> TypeError(const InferContext& c, fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(ErrorCode::kInvalidArgument, ToString(c.node.op), format, std::forward<Args>(args)...);
}

// Equal sizes; the tag of either side, an error if both have different ones.
Result<Type> MergeShapes(const InferContext& c, const Type& a, const Type& b);
Result<std::vector<int64_t>> RequireInts(const InferContext& c, const char* key);
// An i32 vector.
Status RequireIndices(const InferContext& c, size_t operand, int rank);
Status RequirePlain(const InferContext& c);  // no operand has an encoding

Result<Types> InferPrimitive(const InferContext& c);
Result<Types> InferShapeOp(const InferContext& c);
Result<Types> InferIndexing(const InferContext& c);
Result<Types> InferCollective(const InferContext& c);
Result<Types> InferComposite(const InferContext& c);
Result<Types> InferStructural(const InferContext& c);

}  // namespace deepinfer::ir::internal
