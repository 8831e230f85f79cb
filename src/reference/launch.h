// One entry of the flat list that a captured step is: everything has its address, on every rank. For src/reference
// only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "interp/collective.h"
#include "interp/interp.h"

namespace deepinfer::reference {

// The live part of `data` is its first rows; the rest is padding.
struct Extent {
  ir::Dim first = 1;
  int64_t row_bytes = 0;

  Extent() = default;
  explicit Extent(const ir::Type& type);
  int64_t LiveBytes(const ir::LiveCounts& live) const;
  int64_t Bytes() const { return first.size * row_bytes; }
};

struct Launch {
  enum class Kind { kNode, kCollective, kCopy, kCase, kBreak };
  struct Padding {
    std::byte* data;
    Extent extent;
  };
  // kNode: both. kCopy, kCollective: one of each. kCase: the index.
  struct Addresses {
    std::vector<const void*> operands;
    std::vector<void*> results;
    std::vector<Padding> padding;  // to poison before it runs
  };

  Kind kind = Kind::kNode;
  std::vector<Addresses> ranks;  // fewer than there are: the others have nothing to do
  interp::PreparedNode* node = nullptr;
  const interp::PreparedCollective* collective = nullptr;
  std::vector<const void*> members;                // kCollective: the operand, by rank
  Extent extent;                                   // kCopy
  std::vector<std::vector<Launch>> branches;       // kCase
  backend::BreakFunction function;                 // kBreak
  std::unique_ptr<backend::BreakContext> context;  // kBreak
};

using LaunchList = std::vector<Launch>;

struct RankRange {
  size_t begin = 0;
  size_t end = 1;
};

// Runs the launches in order, each on all ranks before the next: a collective finds every operand, and none is
// overwritten before all have read it. Up to the first error, which only a break can give.
Status RunLaunches(const LaunchList& launches, RankRange ranks, const ir::LiveCounts& live, ThreadTeam* team);

}  // namespace deepinfer::reference
