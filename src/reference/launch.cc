#include "reference/launch.h"

#include <algorithm>
#include <cstring>

namespace deepinfer::reference {

Extent::Extent(const ir::Type& type) {
  if (!type.dims.empty()) first = type.dims[0];
  row_bytes = first.size == 0 ? 0 : type.Bytes() / first.size;
}

int64_t Extent::LiveBytes(const ir::LiveCounts& live) const {
  return std::clamp<int64_t>(live.Of(first.tag, first.size), 0, first.size) * row_bytes;
}

namespace {

Status RunOnRank(const Launch& launch, size_t rank, const ir::LiveCounts& live, ThreadTeam* team) {
  const Launch::Addresses& at = launch.ranks[rank];
  for (const Launch::Padding& padding : at.padding) {
    const int64_t begin = padding.extent.LiveBytes(live);
    std::memset(padding.data + begin, 0xff, static_cast<size_t>(padding.extent.Bytes() - begin));
  }
  switch (launch.kind) {
    case Launch::Kind::kNode:
      launch.node->Run(at.operands.data(), at.results.data(), live, team);
      break;
    case Launch::Kind::kCollective:
      launch.collective->Run(static_cast<int64_t>(rank), launch.members.data(), at.results[0]);
      break;
    case Launch::Kind::kCopy: {
      if (at.results[0] == at.operands[0]) break;
      std::memcpy(at.results[0], at.operands[0], static_cast<size_t>(launch.extent.LiveBytes(live)));
      break;
    }
    case Launch::Kind::kCase: {
      // An index out of range takes the last branch, as in StableHLO. No branch holds a collective.
      const auto last = static_cast<int64_t>(launch.branches.size()) - 1;
      int64_t index = *static_cast<const int32_t*>(at.operands[0]);
      if (index < 0 || index > last) index = last;
      return RunLaunches(launch.branches[static_cast<size_t>(index)], {rank, rank + 1}, live, team);
    }
    case Launch::Kind::kBreak:
      launch.context->live = live;
      return launch.function(*launch.context);
  }
  return {};
}

}  // namespace

Status RunLaunches(const LaunchList& launches, RankRange ranks, const ir::LiveCounts& live, ThreadTeam* team) {
  for (const Launch& launch : launches) {
    const size_t end = std::min(ranks.end, launch.ranks.size());
    for (size_t rank = ranks.begin; rank < end; ++rank) DI_RETURN_IF_ERROR(RunOnRank(launch, rank, live, team));
  }
  return {};
}

}  // namespace deepinfer::reference
