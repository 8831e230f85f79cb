// Collectives over replicas: every rank is one. Floats are combined as f32 and rounded once, as elsewhere.
#include <fmt/format.h>

#include "ir/collective.h"
#include "pjrt/lower.h"
#include "pjrt/mlir_text.h"

namespace deepinfer::pjrt {
namespace {

std::string GroupsAttr(const ir::ReplicaGroups& groups) {
  const auto size = static_cast<size_t>(groups.group_size);
  std::string rows;
  for (size_t first = 0; first < groups.ranks.size(); first += size) {
    rows += fmt::format("{}[{}]", first > 0 ? ", " : "",
                        fmt::join(groups.ranks.begin() + first, groups.ranks.begin() + first + size, ", "));
  }
  return fmt::format("replica_groups = dense<[{}]> : tensor<{}x{}xi64>", rows, groups.ranks.size() / size, size);
}

Val Combine(const LowerContext& c, const char* op, const std::string& attrs) {
  const Val x = c.e.Widen(c.v[0]);
  const char* reducer = c.node.Str("kind") == "max" ? "stablehlo.maximum" : "stablehlo.add";
  const Val combined =
      c.e.Emit(op, {x}, c.types[0].WithDType(x.type.dtype), attrs, {c.e.BinaryRegion(x.type.dtype, reducer)});
  return c.e.Convert(combined, c.types[0].dtype);
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
