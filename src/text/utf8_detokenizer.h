// Bytes of tokens in, text that is always whole UTF-8 out: what a stream may send.
//
// Push() returns all characters that are complete; up to three bytes of an unfinished one are held back. Bad bytes
// become one U+FFFD per maximal bad part. The joined results of Push and Flush equal ReplaceInvalidUtf8 of the joined
// input, however it was cut. One object per stream, not thread-safe. Source: WHATWG Encoding standard, UTF-8 decoder.
#pragma once

#include <string>
#include <string_view>

namespace deepinfer::text {

class Utf8Detokenizer {
 public:
  std::string Push(std::string_view bytes);
  // The end of the output: an unfinished character becomes U+FFFD. The object is fresh afterwards.
  std::string Flush();
  // Bytes held back (0 to 3).
  size_t held() const { return held_.size(); }

 private:
  std::string held_;
};

std::string ReplaceInvalidUtf8(std::string_view bytes);

}  // namespace deepinfer::text
