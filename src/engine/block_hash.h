// Names of KV blocks: a full block is known by its tokens, by everything before it, and by the salt of its request.
// XXH3 with 128 bits and a seed of the process, so that nobody can prepare two prompts of one name; whoever finds a
// block by its name still compares its tokens (block_manager.h). Pure; allocates nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace deepinfer::engine {

struct BlockHash {
  uint64_t low = 0;
  uint64_t high = 0;
  bool operator==(const BlockHash&) const = default;
};

// What stands before the first block.
BlockHash RootHash(std::string_view salt, uint64_t seed);
BlockHash ChainHash(const BlockHash& parent, std::span<const int32_t> tokens);

}  // namespace deepinfer::engine
