// One entry of the flat list that a captured step is: everything has its address. For src/reference only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
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
  enum class Kind { kNode, kCopy, kCase, kBreak };
  struct Padding {
    std::byte* data;
    Extent extent;
  };

  Kind kind = Kind::kNode;
  std::string what;  // for `inspect`
  // kNode: both. kCopy: one of each. kCase: the index.
  std::vector<const void*> operands;
  std::vector<void*> results;
  interp::PreparedNode* node = nullptr;
  Extent extent;                                   // kCopy
  std::vector<std::vector<Launch>> branches;       // kCase
  backend::BreakFunction function;                 // kBreak
  std::unique_ptr<backend::BreakContext> context;  // kBreak
  std::vector<Padding> padding;                    // to poison before it runs
};

using LaunchList = std::vector<Launch>;

// Runs the launches in order, up to the first error, which only a break can give.
Status RunLaunches(const LaunchList& launches, const ir::LiveCounts& live, ThreadTeam* team);

}  // namespace deepinfer::reference
