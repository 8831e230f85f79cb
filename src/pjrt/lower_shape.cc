// Primitives that move elements and compute nothing.
#include <fmt/format.h>

#include "pjrt/lower.h"
#include "pjrt/mlir_text.h"

namespace deepinfer::pjrt {

Val LowerMove(const LowerContext& c) {
  const ir::Node& n = c.node;
  const ir::Type& type = c.types[0];
  switch (n.op) {
    case ir::Op::kBroadcastInDim:
      return c.e.Emit("stablehlo.broadcast_in_dim", c.v, type, "broadcast_dimensions = " + I64Array(n.Ints("dims")));
    case ir::Op::kTranspose:
      return c.e.Emit("stablehlo.transpose", c.v, type, "permutation = " + I64Array(n.Ints("perm")));
    case ir::Op::kSlice:
      return c.e.Emit("stablehlo.slice", c.v, type,
                      fmt::format("start_indices = {}, limit_indices = {}, strides = {}", I64Array(n.Ints("start")),
                                  I64Array(n.Ints("limit")), I64Array(n.Ints("stride"))));
    case ir::Op::kConcatenate:
      return c.e.Emit("stablehlo.concatenate", c.v, type, fmt::format("dimension = {} : i64", n.Int("dim")));
    case ir::Op::kPad:
      return c.e.Emit(
          "stablehlo.pad", c.v, type,
          fmt::format("edge_padding_low = {}, edge_padding_high = {}, interior_padding = {}", I64Array(n.Ints("low")),
                      I64Array(n.Ints("high")), I64Array(std::vector<int64_t>(type.dims.size(), 0))));
    default:
      return c.e.Reshape(c.v[0], type.dims);
  }
}

}  // namespace deepinfer::pjrt
