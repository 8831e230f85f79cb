// What may come next in one generated sequence, token by token: the engine asks, a grammar (text/grammar.h) answers.
//
// A TokenGrammar is compiled once and shared: immutable, thread-safe. A TokenConstraint is one sequence's place in it:
// one thread at a time. Masks are packed bits over the model's vocabulary: bit i % 32 of word i / 32 is token i.
// Errors end the request, not the step.
#pragma once

#include <cstdint>
#include <memory>

#include "base/error.h"

namespace deepinfer {

class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  // Writes `words` words; every bit that is not an allowed token is 0. What ends the text (the tokenizer's end tokens)
  // is allowed exactly where the text so far is complete.
  virtual Status ComputeMask(uint32_t* words, int64_t num_words) = 0;
  // Goes on after `token`, which the last mask allowed and which does not end the text.
  virtual Status Accept(int32_t token) = 0;
  // The text so far is complete.
  virtual bool IsAccepting() = 0;
  // Complete, and nothing can follow.
  virtual bool IsFinished() = 0;
  // The same place, going its own way from here.
  virtual std::unique_ptr<TokenConstraint> Clone() const = 0;
};

class TokenGrammar {
 public:
  virtual ~TokenGrammar() = default;
  // A new place, at the beginning.
  virtual Result<std::unique_ptr<TokenConstraint>> Start() const = 0;
};

}  // namespace deepinfer
