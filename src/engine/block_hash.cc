#include "engine/block_hash.h"

#include <xxhash.h>

namespace deepinfer::engine {
namespace {

BlockHash ToHash(XXH128_hash_t hash) {
  return {hash.low64, hash.high64};
}

}  // namespace

BlockHash RootHash(std::string_view salt, uint64_t seed) {
  return ToHash(XXH3_128bits_withSeed(salt.data(), salt.size(), seed));
}

BlockHash ChainHash(const BlockHash& parent, std::span<const int32_t> tokens) {
  const XXH128_hash_t own = XXH3_128bits_withSeed(tokens.data(), tokens.size_bytes(), parent.low);
  const uint64_t both[] = {parent.low, parent.high, own.low64, own.high64};
  return ToHash(XXH3_128bits_withSeed(both, sizeof(both), parent.high));
}

}  // namespace deepinfer::engine
