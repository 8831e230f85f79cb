// What one choice's next row brings beside numbers: the token mask (allowed and banned ids, bad words, min_tokens, the
// grammar) and the adjustments of logits (logit_bias, penalties, DRY), kept up to date token by token. The graph
// applies them (ir/sampling.h).
//
// Owned by a sequence; one thread at a time. Accept allocates nothing unless a grammar does.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/token_constraint.h"
#include "engine/bad_words.h"
#include "engine/dry.h"
#include "engine/request.h"
#include "runner/step_plan.h"

namespace deepinfer::engine {

class RowControls {
 public:
  // For a valid request (Validate) whose prompt and output may have max_total tokens together. Fails if the grammar
  // cannot start or leaves no token.
  static Result<std::unique_ptr<RowControls>> Create(const GenerationRequest& request, int64_t vocab,
                                                     int64_t max_total);

  // Of the next row, null for none; valid until the next Accept.
  const uint32_t* token_mask() const { return masked_ ? mask_.data() : nullptr; }
  const std::vector<runner::Adjustment>* adjustments() const { return adjustments_.empty() ? nullptr : &adjustments_; }
  // The row that samples token number `position` of the sequence, of choice `choice`.
  void FillRow(uint32_t choice, int64_t position, runner::PlannedRow* row) const;
  // After a token was sampled that does not end the choice; tokens: all of the sequence, that one the last. Fails with
  // the choice's error, such as a grammar that ran out of its budget.
  Status Accept(std::span<const int32_t> tokens);
  // The grammar's text is complete and nothing can follow.
  bool finished() const { return finished_; }

 private:
  RowControls(const GenerationRequest& request, int64_t vocab, int64_t max_total);

  void InitMask(const GenerationRequest& request);
  void InitAdjustments(const GenerationRequest& request, int64_t max_total);
  void CountPrompt(const GenerationRequest& request);
  // output: the tokens so far.
  Status UpdateMask(std::span<const int32_t> output);
  void BanStops();
  void CountOutput(int32_t token);
  void UpdateDry(std::span<const int32_t> tokens);
  size_t PlaceOf(int32_t id);
  void UpdatePenalty(size_t place);

  SamplingParams params_;
  int64_t vocab_;
  std::vector<int32_t> stop_ids_, stops_offered_;
  int64_t generated_ = 0;

  std::vector<uint32_t> fixed_;  // allowed_ids, banned_ids and bad words of one token; empty: no such
  BadWords bad_words_;           // the longer ones
  std::vector<uint32_t> mask_;   // of the next row
  bool masked_ = false;
  std::unique_ptr<TokenConstraint> constraint_;
  bool finished_ = false;

  std::vector<runner::Adjustment> adjustments_;
  std::vector<int32_t> output_counts_;  // of each adjustment's token
  std::vector<float> dry_penalties_;
  std::vector<int32_t> places_;  // [vocab]: of the token in adjustments_; -1: none. Empty where the list is fixed.
  std::vector<size_t> dry_places_;
  Dry dry_;
};

}  // namespace deepinfer::engine
