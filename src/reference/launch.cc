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

Status RunLaunches(const LaunchList& launches, const ir::LiveCounts& live, ThreadTeam* team) {
  for (const Launch& launch : launches) {
    for (const Launch::Padding& padding : launch.padding) {
      const int64_t begin = padding.extent.LiveBytes(live);
      std::memset(padding.data + begin, 0xff, static_cast<size_t>(padding.extent.Bytes() - begin));
    }
    switch (launch.kind) {
      case Launch::Kind::kNode:
        launch.node->Run(launch.operands.data(), launch.results.data(), live, team);
        break;
      case Launch::Kind::kCopy: {
        if (launch.results[0] == launch.operands[0]) break;
        std::memcpy(launch.results[0], launch.operands[0], static_cast<size_t>(launch.extent.LiveBytes(live)));
        break;
      }
      case Launch::Kind::kCase: {
        // An index out of range takes the last branch, as in StableHLO.
        const auto last = static_cast<int64_t>(launch.branches.size()) - 1;
        int64_t index = *static_cast<const int32_t*>(launch.operands[0]);
        if (index < 0 || index > last) index = last;
        DI_RETURN_IF_ERROR(RunLaunches(launch.branches[static_cast<size_t>(index)], live, team));
        break;
      }
      case Launch::Kind::kBreak:
        launch.context->live = live;
        DI_RETURN_IF_ERROR(launch.function(*launch.context));
        break;
    }
  }
  return {};
}

}  // namespace deepinfer::reference
