// Hands out KV blocks. Block 0 is the null block and is never handed out. Not thread-safe (the step loop owns it).
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"

namespace deepinfer::engine {

class BlockManager {
 public:
  // num_blocks counts the null block.
  explicit BlockManager(int64_t num_blocks);

  int64_t free_blocks() const { return static_cast<int64_t>(free_.size()); }
  int64_t usable_blocks() const { return num_blocks_ - 1; }

  // Grows `table` to `blocks` entries; false, and nothing changed, if there are too few free ones.
  bool Grow(std::vector<int32_t>* table, int64_t blocks);
  void Release(std::vector<int32_t>* table);

  // Every block is free or owned once by one of the tables; the null block by none. For tests.
  Status CheckInvariants(const std::vector<const std::vector<int32_t>*>& tables) const;

 private:
  int64_t num_blocks_;
  std::vector<int32_t> free_;  // the next one is at the back
};

}  // namespace deepinfer::engine
