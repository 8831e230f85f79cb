// Tokens by the text they stand for. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace deepinfer::text {

// Ids below `vocab` of all tokens whose bytes hold one of `parts`, ascending. Special tokens are left out. A pass over
// the vocabulary. What DRY's sequence breakers are made of (engine/dry.h).
std::vector<int32_t> TokensContaining(const Tokenizer& tokenizer, const std::vector<std::string>& parts, int64_t vocab);

// The token sequences that spell one of `words` in a text: at its beginning and after a space, whether the word itself
// begins with spaces or not; one of spaces alone has its own spelling only. Each once, in the order of the words. What
// bad words are made of (engine/bad_words.h). Fails naming the word's index in square brackets if it is empty or the
// tokenizer leaves nothing of it.
Result<std::vector<std::vector<int32_t>>> SpellingsOf(const Tokenizer& tokenizer,
                                                      const std::vector<std::string>& words);

}  // namespace deepinfer::text
