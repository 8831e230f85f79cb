#include "engine/block_manager.h"

#include <algorithm>
#include <bit>

namespace deepinfer::engine {

BlockManager::BlockManager(int64_t num_blocks, int64_t block_size)
    : block_size_(block_size),
      blocks_(static_cast<size_t>(num_blocks)),
      tokens_(static_cast<size_t>(num_blocks * block_size)),
      names_(std::bit_ceil(static_cast<size_t>(num_blocks)), -1) {
  free_.reserve(blocks_.size());
  for (int64_t block = num_blocks - 1; block > 0; --block) free_.push_back(static_cast<int32_t>(block));
}

std::span<const int32_t> BlockManager::TokensOf(int32_t block) const {
  return {tokens_.data() + block * block_size_, static_cast<size_t>(block_size_)};
}

void BlockManager::Link(int32_t block) {
  const int32_t newest = blocks_[0].older;
  blocks_[block].older = newest;
  blocks_[block].newer = 0;
  blocks_[newest].newer = block;
  blocks_[0].older = block;
  ++num_cached_;
}

void BlockManager::Unlink(int32_t block) {
  const Block& out = blocks_[block];
  blocks_[out.older].newer = out.newer;
  blocks_[out.newer].older = out.older;
  --num_cached_;
}

int32_t BlockManager::Take() {
  if (free_.empty()) {
    const int32_t oldest = blocks_[0].newer;
    Forget(oldest);
  }
  const int32_t block = free_.back();
  free_.pop_back();
  return block;
}

bool BlockManager::Grow(BlockTable* table, int64_t blocks) {
  const int64_t needed = blocks - static_cast<int64_t>(table->size());
  if (needed > free_blocks()) return false;
  for (int64_t i = 0; i < needed; ++i) {
    const int32_t block = Take();
    blocks_[block].owners = 1;
    table->push_back(block);
  }
  return true;
}

void BlockManager::Leave(int32_t block) {
  if (blocks_[block].published) {
    Link(block);
  } else {
    free_.push_back(block);
  }
}

void BlockManager::Release(BlockTable* table) {
  // Last block first: the same request gets the same blocks again, and a prefix is forgotten from its end.
  for (auto block = table->rbegin(); block != table->rend(); ++block) {
    if (--blocks_[*block].owners == 0) Leave(*block);
  }
  table->clear();
}

int32_t BlockManager::Find(const BlockHash& hash, std::span<const int32_t> tokens) const {
  int32_t block = names_[hash.low & (names_.size() - 1)];
  while (block >= 0 && !(blocks_[block].hash == hash)) block = blocks_[block].next_of_name;
  if (block < 0) return -1;
  const std::span<const int32_t> held = TokensOf(block);
  return std::equal(held.begin(), held.end(), tokens.begin(), tokens.end()) ? block : -1;
}

void BlockManager::Share(BlockTable* table, int32_t block) {
  if (blocks_[block].owners++ == 0) Unlink(block);
  table->push_back(block);
}

void BlockManager::Publish(int32_t block, const BlockHash& hash, std::span<const int32_t> tokens) {
  int32_t* bucket = Bucket(hash);
  for (int32_t other = *bucket; other >= 0; other = blocks_[other].next_of_name) {
    if (blocks_[other].hash == hash) return;
  }
  Block& named = blocks_[block];
  named.hash = hash;
  named.published = true;
  named.next_of_name = *bucket;
  *bucket = block;
  std::copy(tokens.begin(), tokens.end(), tokens_.begin() + block * block_size_);
}

void BlockManager::Forget(int32_t block) {
  Block& named = blocks_[block];
  if (!named.published) return;
  int32_t* at = Bucket(named.hash);
  while (*at != block) at = &blocks_[*at].next_of_name;
  *at = named.next_of_name;
  named.published = false;
  if (named.owners > 0) return;
  Unlink(block);
  free_.push_back(block);
}

Status BlockManager::CheckInvariants(const std::vector<const BlockTable*>& tables) const {
  const auto error = [](const char* what, int32_t block) {
    return MakeError(ErrorCode::kInternal, "block manager", "block {}: {}", block, what);
  };
  const auto size = static_cast<int32_t>(blocks_.size());
  std::vector<int32_t> owners(blocks_.size(), 0), places(blocks_.size(), 0);
  for (const BlockTable* table : tables) {
    std::vector<bool> seen(blocks_.size(), false);
    for (const int32_t block : *table) {
      if (block <= 0 || block >= size) return error("cannot be owned", block);
      if (seen[block]) return error("is twice in one table", block);
      seen[block] = true;
      ++owners[block];
    }
  }
  for (const int32_t block : free_) {
    if (block <= 0 || block >= size) return error("cannot be free", block);
    if (blocks_[block].published) return error("is published, but not kept", block);
    ++places[block];
  }
  int64_t cached = 0;
  for (int32_t block = blocks_[0].newer; block != 0 && cached <= num_cached_; block = blocks_[block].newer, ++cached) {
    if (!blocks_[block].published) return error("is kept without being published", block);
    ++places[block];
  }
  if (cached != num_cached_) return error("not all kept ones are counted", 0);
  for (int32_t block = 1; block < size; ++block) {
    if (owners[block] != blocks_[block].owners) return error("has another number of owners than tables", block);
    if (places[block] != (owners[block] == 0 ? 1 : 0)) return error("is lost, or free and owned", block);
    if (blocks_[block].published && Find(blocks_[block].hash, TokensOf(block)) != block) {
      return error("is published, but not found", block);
    }
  }
  return {};
}

}  // namespace deepinfer::engine
