// Collectives over replicas: every rank is one. Floats are summed as f32 and rounded once, as elsewhere. Their maximum
// is taken of integers in the same order, where NaN is the largest: libraries of collectives lose a NaN.
#include <fmt/format.h>

#include <limits>

#include "ir/collective.h"
#include "pjrt/lower.h"
#include "pjrt/mlir_text.h"

namespace deepinfer::pjrt {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();

std::string GroupsAttr(const ir::ReplicaGroups& groups) {
  const auto size = static_cast<size_t>(groups.group_size);
  std::string rows;
  for (size_t first = 0; first < groups.ranks.size(); first += size) {
    rows += fmt::format("{}[{}]", first > 0 ? ", " : "",
                        fmt::join(groups.ranks.begin() + first, groups.ranks.begin() + first + size, ", "));
  }
  return fmt::format("replica_groups = dense<[{}]> : tensor<{}x{}xi64>", rows, groups.ranks.size() / size, size);
}

// Turns the bits of an f32 into its place among all, and back: the magnitude bits of a negative one are reversed.
Val FlipNegative(Emitter& e, const Val& bits) {
  const Val sign = e.Same("stablehlo.shift_right_arithmetic", {bits, e.SplatInt(bits.type, 31)});
  const Val flip = e.Same("stablehlo.and", {sign, e.SplatInt(bits.type, kLargest)});
  return e.Same("stablehlo.xor", {bits, flip});
}

// The largest place is that of a NaN.
Val PlaceOf(Emitter& e, const Val& x) {
  const ir::Type type = x.type.WithDType(DType::kI32);
  const Val place = FlipNegative(e, e.Emit("stablehlo.bitcast_convert", {x}, type));
  return e.Select(e.Compare(x, x, "ne"), e.SplatInt(type, kLargest), place);
}

Val Combine(const LowerContext& c, const char* op, const std::string& attrs) {
  Emitter& e = c.e;
  const bool max = c.node.Str("kind") == "max";
  const bool placed = max && IsFloat(c.types[0].dtype);
  Val x = e.Widen(c.v[0]);
  if (placed) x = PlaceOf(e, x);
  const std::string reducer = e.BinaryRegion(x.type.dtype, max ? "stablehlo.maximum" : "stablehlo.add");
  Val combined = e.Emit(op, {x}, c.types[0].WithDType(x.type.dtype), attrs, {reducer});
  if (placed) {
    combined = e.Emit("stablehlo.bitcast_convert", {FlipNegative(e, combined)}, combined.type.WithDType(DType::kF32));
  }
  return e.Convert(combined, c.types[0].dtype);
}

}  // namespace

Result<Vals> LowerCollective(const LowerContext& c) {
  DI_ASSIGN_OR_RETURN(const ir::ReplicaGroups groups, ir::ReplicaGroupsOf(c.node));
  const std::string group_attr = GroupsAttr(groups);
  const auto with_dim = [&](const char* name) {
    return fmt::format("{}, {} = {} : i64", group_attr, name, c.node.Int("dim"));
  };
  switch (c.node.op) {
    case ir::Op::kAllReduce:
      return Vals{Combine(c, "stablehlo.all_reduce", group_attr)};
    case ir::Op::kReduceScatter:
      return Vals{Combine(c, "stablehlo.reduce_scatter", with_dim("scatter_dimension"))};
    case ir::Op::kAllGather:
      return Vals{c.e.Emit("stablehlo.all_gather", c.v, c.types[0], with_dim("all_gather_dim"))};
    default:
      return Vals{
          c.e.Emit("stablehlo.all_to_all", c.v, c.types[0],
                   fmt::format("concat_dimension = {} : i64, {}, split_count = {} : i64, split_dimension = {} : i64",
                               c.node.Int("concat_dim"), group_attr, groups.group_size, c.node.Int("split_dim")))};
  }
}

}  // namespace deepinfer::pjrt
