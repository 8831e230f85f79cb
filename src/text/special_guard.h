// Keeps special tokens that stand in a client's text from becoming special tokens of the prompt.
//
// Guard() puts one guard character (private use, U+10FFFD) after the first character of every special token in a text,
// and of every beginning of one at the text's end (the next text could complete it). The rendered prompt is then
// encoded with DI_ENCODE_GUARDED, which takes the guards out after special tokens were found. A guard character of the
// client's own is doubled and so survives. Templates still see the text's first characters and length-insensitive
// parts. Immutable after construction: thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer::text {

class SpecialGuard {
 public:
  explicit SpecialGuard(const std::vector<std::string>& special_tokens);
  std::string Guard(std::string_view text) const;

 private:
  struct Node {
    std::map<char, int32_t> next;
    bool end = false;
  };
  bool StartsHere(std::string_view rest) const;

  std::vector<Node> nodes_;
};

// The special tokens that a template's source looks for in texts, as in `content.split('</think>')` or
// `'</think>' in content`: in an assistant's own earlier text they have to stay visible to the template.
std::vector<std::string> TokensLookedForBy(std::string_view template_source,
                                           const std::vector<std::string>& special_tokens);

}  // namespace deepinfer::text
