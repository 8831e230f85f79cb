// Small vocabularies for tests, of both GGUF kinds. The object owns the texts that its spec points into.
#pragma once

#include <deque>
#include <string>

#include "text/vocab_spec.h"

namespace deepinfer::text {

struct ToyVocab {
  ToyVocab() = default;
  ToyVocab(ToyVocab&&) = default;  // a deque's elements stay where they are

  std::string_view Keep(std::string text) { return texts.emplace_back(std::move(text)); }
  int32_t Add(std::string text, TokenType type, float score = 0) {
    spec.tokens.push_back(Keep(std::move(text)));
    spec.types.push_back(type);
    if (spec.kind == VocabKind::kSentencePiece) spec.scores.push_back(score);
    return static_cast<int32_t>(spec.tokens.size()) - 1;
  }
  void Merge(const std::string& left, const std::string& right) {
    Add(left + right, TokenType::kNormal);
    spec.merges.push_back(Keep(left + " " + right));
  }

  std::deque<std::string> texts;
  VocabSpec spec;
};

// All 256 byte characters, merges for "hello", " hello" and numbers of up to three digits; <|bos|>, <|eos|>,
// <|im_end|>, and a user-defined <tab>.
inline ToyVocab ToyByteLevel(const std::string& pre) {
  ToyVocab toy;
  toy.spec.kind = VocabKind::kByteLevelBpe;
  toy.spec.pre_tokenizer = pre;
  toy.spec.bos = toy.Add("<|bos|>", TokenType::kControl);
  toy.spec.eos = toy.Add("<|eos|>", TokenType::kControl);
  toy.Add("<|im_end|>", TokenType::kControl);
  toy.Add("<tab>", TokenType::kUserDefined);
  const auto character = [](int code) {
    std::string out;
    if (code >= 0x80) out.push_back(static_cast<char>(0xC0 | (code >> 6)));
    out.push_back(static_cast<char>(code < 0x80 ? code : 0x80 | (code & 0x3F)));
    return out;
  };
  int next = 256;
  std::string byte_text[256];
  for (int byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    byte_text[byte] = character(itself ? byte : next++);
    toy.Add(byte_text[byte], TokenType::kNormal);
  }
  toy.Merge("h", "e");
  toy.Merge("l", "l");
  toy.Merge("he", "ll");
  toy.Merge("hell", "o");
  toy.Merge(byte_text[' '], "hello");
  for (const char* number : {"333", "777", "501", "123", "456", "567"}) {
    const std::string text = number;
    toy.Merge(text.substr(0, 1), text.substr(1, 1));
    toy.Merge(text.substr(0, 2), text.substr(2, 1));
  }
  // U+0663, two bytes, and a pair of it.
  toy.Merge(byte_text[0xD9], byte_text[0xA3]);
  toy.Merge(byte_text[0xD9] + byte_text[0xA3], byte_text[0xD9] + byte_text[0xA3]);
  return toy;
}

// <unk>, <s>, </s>, all byte tokens, a few letters and pieces, and a user-defined run of newlines.
inline ToyVocab ToySentencePiece() {
  ToyVocab toy;
  toy.spec.kind = VocabKind::kSentencePiece;
  toy.spec.unknown = toy.Add("<unk>", TokenType::kUnknown);
  toy.spec.bos = toy.Add("<s>", TokenType::kControl);
  toy.spec.eos = toy.Add("</s>", TokenType::kControl);
  for (int byte = 0; byte < 256; ++byte) {
    constexpr char kHex[] = "0123456789ABCDEF";
    toy.Add(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">", TokenType::kByte);
  }
  toy.Add("\n\n", TokenType::kUserDefined);
  for (const char* letter : {"▁", "u", "s", "e", "r", "a", "b", "<", ">", "0", "x", "4", "1"}) {
    toy.Add(letter, TokenType::kNormal, -100);
  }
  float score = -1;
  for (const char* piece : {"us", "er", "user", "▁user", "▁b", "▁a", "▁▁", "aa", "s>", "<s"}) {
    toy.Add(piece, TokenType::kNormal, score);
    score -= 1;
  }
  return toy;
}

}  // namespace deepinfer::text
