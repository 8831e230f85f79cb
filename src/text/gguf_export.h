// A Hugging Face folder's tokenizer as the metadata of a GGUF file.
//
// Vocabulary, merges (as scores for SentencePiece-like models) and special tokens are taken from tokenizer.json. How
// text is cut is a name in GGUF files: the one is taken with which a text of all kinds of pieces gets the same ids;
// without one, the tokenizer is refused. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "formats/gguf_writer.h"

namespace deepinfer::text {

// vocab: rows of the embedding; tokens beyond the tokenizer's own get names that no text has. eos: the ends of
// generation that the model's config names. Returns a warning, or "".
Result<std::string> AddGgufTokenizer(const std::string& folder, int64_t vocab, const std::vector<int32_t>& eos,
                                     formats::GgufWriter* writer);

}  // namespace deepinfer::text
