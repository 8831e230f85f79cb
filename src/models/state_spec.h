// What a model keeps between steps. The engine knows nothing else about a model's memory. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace deepinfer::models {

enum class StateKind {
  kPaged,    // rows in blocks shared through block tables: [blocks, heads, block_size, width]; K and V are two views
  kPerSlot,  // one row per request slot, plus a dummy last row
  kGlobal,   // one for all, with a dummy last row for commits that go nowhere
};

// What happens to the state when speculative tokens are rejected.
enum class Rollback {
  kByPosition,  // later positions are simply overwritten (KV)
  kRestore,     // the state before the step must be put back (recurrent states)
};

// How a prefix cache may keep it.
enum class Snapshot {
  kBlocks,  // block by block
  kCopy,    // a whole copy at a block boundary
  kNone,
};

struct StateSpec {
  std::string name;  // also the name of the graph's input
  StateKind kind = StateKind::kPaged;
  std::string buffer;        // allocation it lies in; specs of one buffer follow each other in the order given
  std::string pool;          // paged: states that share block ids
  std::vector<int64_t> row;  // kPaged: {heads, width} of one token; kPerSlot, kGlobal: shape of one row
  DType dtype = DType::kF32;
  Rollback rollback = Rollback::kByPosition;
  Snapshot snapshot = Snapshot::kBlocks;
};

}  // namespace deepinfer::models
