// One answer as text: tokens in, text that may be shown out. Whole characters only, no part of a stop string, special
// tokens left out. One object per answer; not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"
#include "text/utf8_detokenizer.h"

namespace deepinfer::engine {

class TextStream {
 public:
  // tokenizer must outlive the stream.
  static Result<TextStream> Create(const text::Tokenizer* tokenizer, std::vector<std::string> stops);

  // Text that became certain. After stopped() nothing more comes.
  std::string Push(int32_t id);
  // The end of the answer: whatever was held back.
  std::string Finish();

  bool stopped() const { return stopped_; }
  int stop_index() const { return stop_index_; }     // which stop string, -1: none
  const std::string& text() const { return text_; }  // all of it so far
  // Bytes of text that the tokens so far stand for, with what is held back or was cut by a stop string.
  size_t pushed() const { return decoded_ + detokenizer_.held(); }

 private:
  TextStream(const text::Tokenizer* tokenizer, text::StopMatcher matcher)
      : tokenizer_(tokenizer), matcher_(std::move(matcher)) {}
  std::string Take(text::StopMatcher::Output output);

  const text::Tokenizer* tokenizer_;
  text::Utf8Detokenizer detokenizer_;
  text::StopMatcher matcher_;
  std::string text_;
  size_t decoded_ = 0;  // bytes out of the detokenizer
  int stop_index_ = -1;
  bool stopped_ = false;
};

}  // namespace deepinfer::engine
