#include "ir/collective.h"

#include <algorithm>

namespace deepinfer::ir {
namespace {

int64_t IndexOf(const ReplicaGroups& groups, int64_t rank) {
  return std::find(groups.ranks.begin(), groups.ranks.end(), rank) - groups.ranks.begin();
}

}  // namespace

bool IsCollective(Op op) {
  return op == Op::kAllReduce || op == Op::kAllGather || op == Op::kReduceScatter || op == Op::kAllToAll;
}

std::span<const int64_t> ReplicaGroups::GroupOf(int64_t rank) const {
  const int64_t first = IndexOf(*this, rank) / group_size * group_size;
  return std::span(ranks).subspan(static_cast<size_t>(first), static_cast<size_t>(group_size));
}

int64_t ReplicaGroups::PositionOf(int64_t rank) const {
  return IndexOf(*this, rank) % group_size;
}

Result<ReplicaGroups> ReplicaGroupsOf(const Node& node) {
  ReplicaGroups groups{node.Ints("groups"), node.Int("group_size")};
  const int64_t world = groups.world();
  if (world == 0 || groups.group_size < 1 || world % groups.group_size != 0) {
    return MakeError(ErrorCode::kInvalidArgument, ToString(node.op), "groups of {} cannot be made of {} ranks",
                     groups.group_size, world);
  }
  std::vector<int64_t> sorted = groups.ranks;
  std::sort(sorted.begin(), sorted.end());
  for (int64_t rank = 0; rank < world; ++rank) {
    if (sorted[static_cast<size_t>(rank)] == rank) continue;
    return MakeError(ErrorCode::kInvalidArgument, ToString(node.op), "groups [{}] must hold each of 0 to {} once",
                     fmt::join(groups.ranks, ","), world - 1);
  }
  return groups;
}

AttrMap OverAllRanks(int64_t ranks, AttrMap attrs) {
  std::vector<int64_t> all(static_cast<size_t>(ranks));
  for (int64_t rank = 0; rank < ranks; ++rank) all[static_cast<size_t>(rank)] = rank;
  attrs["groups"] = std::move(all);
  attrs["group_size"] = ranks;
  return attrs;
}

int64_t WorldSize(const Module& module) {
  for (const Function& function : module.functions) {
    for (const Node& node : function.nodes) {
      if (IsCollective(node.op)) return static_cast<int64_t>(node.Ints("groups").size());
    }
  }
  return 1;
}

}  // namespace deepinfer::ir
