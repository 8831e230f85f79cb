// Sequences of tokens that must not come in an output: the last token of one is banned wherever the output ends in
// those before it. The prompt does not count. Source: vLLM's bad_words.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace deepinfer::engine {

class BadWords {
 public:
  // Keeps those of two tokens and more: one alone is banned everywhere, which needs no output. One thread at a time.
  explicit BadWords(const std::vector<std::vector<int32_t>>& words);

  bool empty() const { return words_.empty(); }
  // The tokens that would complete a word after this output; one may come more than once. Valid until the next call.
  // Allocates nothing.
  std::span<const int32_t> Find(std::span<const int32_t> output);

 private:
  std::vector<std::vector<int32_t>> words_;
  std::vector<int32_t> found_;
};

}  // namespace deepinfer::engine
