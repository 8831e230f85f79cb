// Tokens by what is in their text. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace deepinfer::text {

// Ids below `vocab` of all tokens whose bytes hold one of `parts`, ascending. Special tokens are left out. A pass over
// the vocabulary. What DRY's sequence breakers are made of (engine/dry.h).
std::vector<int32_t> TokensContaining(const Tokenizer& tokenizer, const std::vector<std::string>& parts, int64_t vocab);

}  // namespace deepinfer::text
