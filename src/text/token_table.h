// The texts of all tokens, and the bytes each stands for. Immutable after it is filled: thread-safe.
//
// Byte-level vocabularies write bytes as characters (GPT-2's table), SentencePiece writes spaces as U+2581 and lone
// bytes as <0xNN>. Special tokens stand for their own text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace deepinfer::text {

struct TokenTable {
  enum class Form { kPlain, kByteLevel, kMetaspace };
  enum Flag : uint8_t { kAdded = 1, kSpecial = 2, kByte = 8 };

  Form form = Form::kPlain;
  std::string replacement;  // kMetaspace: what stands for a space
  std::string texts;        // joined
  std::vector<uint32_t> offsets{0};
  std::vector<uint8_t> flags;
  std::unordered_map<std::string, int32_t> added;  // added tokens by text

  int32_t size() const { return static_cast<int32_t>(flags.size()); }
  bool Has(int32_t id, Flag flag) const { return id >= 0 && id < size() && (flags[id] & flag) != 0; }
  std::string_view Text(int32_t id) const;    // "" outside the vocabulary
  std::string Bytes(int32_t id) const;        // may be part of a character
  int32_t Find(std::string_view text) const;  // -1: none; added tokens first, else a linear search
  void IndexAdded();                          // fills `added` from texts and flags
};

// Is this the spelling of a lone byte, <0xNN>?
bool IsByteToken(std::string_view text);

}  // namespace deepinfer::text
