// A vocabulary as plain data: what a GGUF file says about its tokenizer, and what tests write by hand.
//
// Views must live until Tokenizer::FromVocab returns. Index = token id. Nothing here is checked; FromVocab does that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer::text {

enum class VocabKind {
  kByteLevelBpe,   // GGUF "gpt2": merges over byte characters, pieces cut by regexes
  kSentencePiece,  // GGUF "llama": merges by score, byte fallback, spaces as U+2581
};

// The numbers of tokenizer.ggml.token_type.
enum class TokenType : uint8_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

struct VocabSpec {
  std::string where = "vocabulary";  // names the source in errors
  VocabKind kind = VocabKind::kByteLevelBpe;
  std::string pre_tokenizer;  // byte level: a name from pre_tokenizer_table.h
  std::vector<std::string_view> tokens;
  std::vector<TokenType> types;          // empty: all normal, the named ids below are control
  std::vector<float> scores;             // SentencePiece only
  std::vector<std::string_view> merges;  // byte level only: "left right", best first
  std::optional<int32_t> bos, eos, eot, eom, unknown, pad;
  std::optional<bool> add_bos, add_eos, add_space_prefix;  // unset: the kind's own habit
  std::string chat_template;                               // empty: none
  std::string tool_use_template;  // used when tools are given; empty: chat_template serves both
};

}  // namespace deepinfer::text
