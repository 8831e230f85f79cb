#include "engine/bad_words.h"

#include <algorithm>

namespace deepinfer::engine {

BadWords::BadWords(const std::vector<std::vector<int32_t>>& words) {
  std::copy_if(words.begin(), words.end(), std::back_inserter(words_),
               [](const std::vector<int32_t>& word) { return word.size() > 1; });
  found_.reserve(words_.size());
}

std::span<const int32_t> BadWords::Find(std::span<const int32_t> output) {
  found_.clear();
  for (const std::vector<int32_t>& word : words_) {
    const size_t before = word.size() - 1;
    if (before <= output.size() && std::equal(word.begin(), word.end() - 1, output.end() - before)) {
      found_.push_back(word.back());
    }
  }
  return found_;
}

}  // namespace deepinfer::engine
