// Stop strings over a stream of text: no part of a stop string is let out, nothing else is held longer than needed.
//
// The match is the one that starts first in the whole text, however the text was cut into chunks. Only a suffix that
// can still become a stop is held back. A match is final once no earlier start can still become one: with stops "abcX"
// and "bc", the text "abc" waits for the next character. One object per stream, not thread-safe. Text is UTF-8; stops
// are compared byte for byte.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace deepinfer::text {

class StopMatcher {
 public:
  // No stops is fine. An empty stop string is refused (kInvalidArgument, where "stop").
  static Result<StopMatcher> Create(std::vector<std::string> stops);

  struct Output {
    std::string text;      // may be sent now
    bool stopped = false;  // a stop string was met: text ends before it, and the stream is over
    int stop_index = -1;   // which one
  };
  // After `stopped`, further calls return nothing.
  Output Push(std::string_view text);
  // The end of the output: what was held comes out (or a match that was still waiting is taken).
  Output Flush();

 private:
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}
  Output Scan(bool at_end);

  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace deepinfer::text
