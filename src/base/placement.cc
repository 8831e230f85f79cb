#include "base/placement.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/cpu_mask.h"
#include "base/page_memory.h"
#include "base/parallel.h"
#include "base/thread_team.h"

namespace deepinfer {
namespace {

constexpr auto kHugePage = static_cast<uintptr_t>(kHugePageBytes);  // also what one node gets in turn

std::vector<int> NodeIds(const TeamPlacement& placement) {
  std::vector<int> ids;
  for (const MemoryNode& node : placement.nodes) ids.push_back(node.id);
  return ids;
}

// What the kernel reads: a bit for each node, and how many of them.
std::vector<unsigned long> NodeMask(const std::vector<int>& nodes) {  // NOLINT: the kernel's word
  constexpr int kWordBits = CHAR_BIT * sizeof(unsigned long);         // NOLINT
  const int largest = *std::max_element(nodes.begin(), nodes.end());
  std::vector<unsigned long> words(static_cast<size_t>(largest / kWordBits) + 1, 0);  // NOLINT
  for (const int node : nodes) words[static_cast<size_t>(node / kWordBits)] |= 1UL << (node % kWordBits);
  return words;
}

// Writes to every page of [begin, end) that is `node`'s.
void TouchRange(std::byte* start, const PlacedRange& range, int node) {
  const int64_t page = PageSize();
  for (int64_t at = range.begin; at < range.end; at += page) {
    const auto turn = static_cast<uintptr_t>(at - range.begin) / kHugePage % range.nodes.size();
    if (range.nodes[turn] == node) *static_cast<volatile std::byte*>(start + at) = std::byte{0};
  }
}

// A huge page over the boundary of two ranges would lie whole on the node that is faster.
void SplitHugePages(std::byte* start, std::span<const PlacedRange> ranges) {
  const auto first = reinterpret_cast<uintptr_t>(start);
  const uintptr_t last = first + static_cast<uintptr_t>(ranges.back().end);
  for (const PlacedRange& range : ranges.subspan(1)) {
    const uintptr_t boundary = first + static_cast<uintptr_t>(range.begin);
    const uintptr_t huge = boundary / kHugePage * kHugePage;
    if (huge == boundary) continue;
    const uintptr_t begin = std::max(huge, first);
    ::madvise(reinterpret_cast<void*>(begin), std::min(huge + kHugePage, last) - begin, MADV_NOHUGEPAGE);
  }
}

}  // namespace

std::vector<PlacedRange> PlaceSpread(const TeamPlacement& placement, int64_t bytes) {
  if (placement.nodes.empty() || bytes <= 0) return {};
  return {{0, bytes, NodeIds(placement)}};
}

std::vector<PlacedRange> PlaceByMember(const TeamPlacement& placement, int64_t bytes, int64_t grain) {
  if (placement.node_of.empty() || placement.nodes.empty()) return PlaceSpread(placement, bytes);
  const int64_t page = PageSize();
  const int members = static_cast<int>(placement.node_of.size());
  std::vector<PlacedRange> ranges;
  for (int member = 0; member < members; ++member) {
    const int64_t part_end = SplitRange(bytes, grain, member, members).end;
    const int64_t begin = ranges.empty() ? 0 : ranges.back().end;
    const int64_t end = part_end == bytes ? bytes : std::min((part_end + page / 2) / page * page, bytes);
    if (begin >= end) continue;
    const int node = placement.node_of[static_cast<size_t>(member)];
    if (!ranges.empty() && ranges.back().nodes[0] == node) {
      ranges.back().end = end;
    } else {
      ranges.push_back({begin, end, {node}});
    }
  }
  return ranges;
}

Status PlacePages(std::byte* start, std::span<const PlacedRange> ranges) {
  for (const PlacedRange& range : ranges) {
    const std::vector<unsigned long> mask = NodeMask(range.nodes);  // NOLINT
    const int mode = range.nodes.size() == 1 ? MPOL_PREFERRED : MPOL_INTERLEAVE;
    // The kernel counts the bits of the mask from one.
    const size_t bits = mask.size() * sizeof(mask[0]) * CHAR_BIT + 1;
    if (::syscall(SYS_mbind, start + range.begin, range.end - range.begin, mode, mask.data(), bits, 0U) != 0) {
      return MakeError(ErrorCode::kUnsupported, "mbind", "{}", std::strerror(errno));
    }
  }
  return {};
}

void TouchNear(const TeamPlacement& placement, std::byte* start, std::span<const PlacedRange> ranges) {
  if (ranges.empty()) return;
  SplitHugePages(start, ranges);
  ParallelFor(static_cast<int>(placement.nodes.size()), [&](int part) {
    const MemoryNode& node = placement.nodes[static_cast<size_t>(part)];
    CpuMask before;
    if (!before.ReadFromThisThread() || !CpuMask(node.cpus).ApplyToThisThread()) return;
    for (const PlacedRange& range : ranges) TouchRange(start, range, node.id);
    before.ApplyToThisThread();
  });
}

Result<std::vector<int>> NodesOfPages(const std::byte* start, int64_t bytes) {
  const int64_t page = PageSize();
  std::vector<const void*> pages;
  for (int64_t at = 0; at < bytes; at += page) pages.push_back(start + at);
  std::vector<int> nodes(pages.size(), -1);
  if (::syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, nodes.data(), 0) != 0) {
    return MakeError(ErrorCode::kUnsupported, "move_pages", "{}", std::strerror(errno));
  }
  for (int& node : nodes) node = std::max(node, -1);  // an error number: no page
  return nodes;
}

}  // namespace deepinfer
