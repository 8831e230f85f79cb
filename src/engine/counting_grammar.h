// For this room's tests: a grammar whose every token is known. Counts up by `step` from 0 and ends after `length`
// tokens; token 2 is the end of text. With 7 tokens it runs out of its budget.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "base/token_constraint.h"

namespace deepinfer::engine {

struct CountingOptions {
  int32_t step = 1;  // < 0: the grammar does not start
  int32_t length = 1;
  bool open_end = false;          // more may follow where it may end
  std::function<void()> on_mask;  // called before each mask; may be empty
};

class Counting : public TokenConstraint {
 public:
  explicit Counting(CountingOptions options) : options_(std::move(options)) {}
  Status ComputeMask(uint32_t* words, int64_t num_words) override {
    if (options_.on_mask) options_.on_mask();
    std::fill(words, words + num_words, 0);
    if (count_ == 7) return MakeError(ErrorCode::kResourceExhausted, "grammar", "too complex");
    const int32_t next = (count_ + 1) * options_.step;
    if (count_ < options_.length || options_.open_end) words[next / 32] |= uint32_t{1} << (next % 32);
    if (IsAccepting()) words[0] |= 4;
    return {};
  }
  Status Accept(int32_t token) override {
    EXPECT_EQ(token, (count_ + 1) * options_.step);
    ++count_;
    return {};
  }
  bool IsAccepting() override { return count_ >= options_.length; }
  bool IsFinished() override { return count_ >= options_.length && !options_.open_end; }
  std::unique_ptr<TokenConstraint> Clone() const override { return std::make_unique<Counting>(*this); }

 private:
  CountingOptions options_;
  int32_t count_ = 0;
};

class CountingGrammar : public TokenGrammar {
 public:
  explicit CountingGrammar(CountingOptions options) : options_(std::move(options)) {}
  CountingGrammar(int32_t step, int32_t length, bool open_end = false)
      : CountingGrammar(CountingOptions{step, length, open_end, nullptr}) {}
  Result<std::unique_ptr<TokenConstraint>> Start() const override {
    if (options_.step < 0) return MakeError(ErrorCode::kInvalidArgument, "grammar", "does not start");
    return std::make_unique<Counting>(options_);
  }
  // What it makes of a model that would go on for ever.
  std::vector<int32_t> Tokens() const {
    std::vector<int32_t> tokens;
    for (int32_t n = 1; n <= options_.length; ++n) tokens.push_back(n * options_.step);
    return tokens;
  }

 private:
  CountingOptions options_;
};

}  // namespace deepinfer::engine
