// Hands out KV blocks, counts their owners, and remembers full ones by name so that an equal prefix finds them again.
//
// Block 0 is the null block and is never handed out. A block has an owner for every table that holds it. A published
// block is full and is never written again; when its last owner leaves it can still be found, until it is needed for
// something else: those that were left longest ago go first, and of one table the last block before the first. Nothing
// allocates after construction but tables. Not thread-safe (the step loop owns it).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "engine/block_hash.h"

namespace deepinfer::engine {

using BlockTable = std::vector<int32_t>;

class BlockManager {
 public:
  // num_blocks counts the null block; block_size in tokens.
  BlockManager(int64_t num_blocks, int64_t block_size);

  // Blocks that nobody owns, published ones included.
  int64_t free_blocks() const { return static_cast<int64_t>(free_.size()) + num_cached_; }
  int64_t cached_blocks() const { return num_cached_; }  // published and owned by nobody
  int64_t usable_blocks() const { return static_cast<int64_t>(blocks_.size()) - 1; }

  // Grows `table` to `blocks` entries; false, and nothing changed, if there are too few free ones.
  bool Grow(BlockTable* table, int64_t blocks);
  // The table owns its blocks no longer.
  void Release(BlockTable* table);

  // The published block of this name and these tokens (block_size of them); -1 if there is none.
  int32_t Find(const BlockHash& hash, std::span<const int32_t> tokens) const;
  // One more owner of a published block, at the end of the table.
  void Share(BlockTable* table, int32_t block);
  // An owned, full block can be found from now on. If another one has its name already, that one stays the one.
  void Publish(int32_t block, const BlockHash& hash, std::span<const int32_t> tokens);
  // It cannot be found any longer; who owns it keeps it.
  void Forget(int32_t block);

  bool published(int32_t block) const { return blocks_[block].published; }
  int32_t owners(int32_t block) const { return blocks_[block].owners; }

  // `tables` are all there are: every block has as many owners as tables that hold it, none is in a table twice, the
  // others are free once; the null block is in no place; published ones are found by their name. For tests.
  Status CheckInvariants(const std::vector<const BlockTable*>& tables) const;

 private:
  struct Block {
    BlockHash hash;
    int32_t owners = 0;
    bool published = false;
    int32_t next_of_name = -1;  // in its bucket of names
    int32_t older = 0;          // neighbours among those that are published and owned by nobody; the null block stands
    int32_t newer = 0;          // between the newest and the oldest
  };

  int32_t Take();
  void Leave(int32_t block);  // its last owner left
  void Link(int32_t block);   // as the newest
  void Unlink(int32_t block);
  int32_t* Bucket(const BlockHash& hash) { return &names_[hash.low & (names_.size() - 1)]; }
  std::span<const int32_t> TokensOf(int32_t block) const;

  int64_t block_size_;
  std::vector<Block> blocks_;
  std::vector<int32_t> tokens_;  // [num_blocks, block_size], of published ones
  std::vector<int32_t> names_;   // first block of each bucket, -1: none; a power of two of them
  std::vector<int32_t> free_;    // not published; the next one is at the back
  int64_t num_cached_ = 0;
};

}  // namespace deepinfer::engine
