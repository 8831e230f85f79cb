#include "engine/block_manager.h"

#include <algorithm>

namespace deepinfer::engine {

BlockManager::BlockManager(int64_t num_blocks) : num_blocks_(num_blocks) {
  free_.reserve(static_cast<size_t>(num_blocks));
  for (int64_t block = num_blocks - 1; block > 0; --block) free_.push_back(static_cast<int32_t>(block));
}

bool BlockManager::Grow(std::vector<int32_t>* table, int64_t blocks) {
  const int64_t needed = blocks - static_cast<int64_t>(table->size());
  if (needed > free_blocks()) return false;
  for (int64_t i = 0; i < needed; ++i) {
    table->push_back(free_.back());
    free_.pop_back();
  }
  return true;
}

void BlockManager::Release(std::vector<int32_t>* table) {
  // Last block first, so that the same request gets the same blocks again.
  free_.insert(free_.end(), table->rbegin(), table->rend());
  table->clear();
}

Status BlockManager::CheckInvariants(const std::vector<const std::vector<int32_t>*>& tables) const {
  std::vector<int> owners(static_cast<size_t>(num_blocks_), 0);
  const auto own = [&](int32_t block) -> Status {
    if (block <= 0 || block >= num_blocks_) {
      return MakeError(ErrorCode::kInternal, "block manager", "block {} of {} is owned", block, num_blocks_);
    }
    if (++owners[block] > 1) return MakeError(ErrorCode::kInternal, "block manager", "block {} is owned twice", block);
    return {};
  };
  for (const int32_t block : free_) DI_RETURN_IF_ERROR(own(block));
  for (const std::vector<int32_t>* table : tables) {
    for (const int32_t block : *table) DI_RETURN_IF_ERROR(own(block));
  }
  if (std::count(owners.begin(), owners.end(), 1) != num_blocks_ - 1) {
    return MakeError(ErrorCode::kInternal, "block manager", "a block was lost");
  }
  return {};
}

}  // namespace deepinfer::engine
