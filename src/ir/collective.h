// Collectives: ops that every rank of a step runs together, each on its own data.
//
// A module with collectives is written once and run by every rank (SPMD): ranks differ in their weights, states and in
// the metadata input "rank", an i32 scalar that the backend supplies; nothing else may tell them apart. Each collective
// names all groups of the world, not only its own ("groups": rank numbers, "group_size" of them per group), so that the
// text is the same on every rank. Within a group, order is that of the list. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "ir/graph.h"

namespace deepinfer::ir {

inline constexpr char kRankInput[] = "rank";

bool IsCollective(Op op);  // all_reduce, all_gather, reduce_scatter, all_to_all

struct ReplicaGroups {
  std::vector<int64_t> ranks;  // group after group
  int64_t group_size = 1;

  int64_t world() const { return static_cast<int64_t>(ranks.size()); }
  // The members of the group that `rank` is in, and its place among them. 0 <= rank < world().
  std::span<const int64_t> GroupOf(int64_t rank) const;
  int64_t PositionOf(int64_t rank) const;
};

// Fails, naming the op, unless the groups hold each of 0 to world - 1 once and are all of one size.
Result<ReplicaGroups> ReplicaGroupsOf(const Node& node);

// The attributes of a collective over one group of all ranks, beside the given ones.
AttrMap OverAllRanks(int64_t ranks, AttrMap attrs = {});

// How many ranks run the module: the world of its collectives, 1 without any. A verified module has one world.
int64_t WorldSize(const Module& module);

}  // namespace deepinfer::ir
