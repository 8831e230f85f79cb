// One step as data: written by the scheduler, read by the runner, by tests and by people.
//
// T live tokens of Q requests, R of which get logits and are sampled. A plan is reused from step to step, so that its
// vectors keep their memory. Plain data; thread-safe to read.
#pragma once

#include <cstdint>
#include <vector>

#include "models/step.h"

namespace deepinfer::runner {

// What is done to one token's logit before it is sampled, in the order of the members (ir/sampling.h).
struct Adjustment {
  int32_t id = 0;
  float bias = 0;        // added
  float repetition = 1;  // divides what is positive, multiplies the rest
  float penalty = 0;     // subtracted
};

struct PlannedRow {
  int32_t token = 0;          // index into the step's tokens
  int32_t commit_slot = -1;   // token store row the sampled token goes to; -1: nowhere
  float temperature = 0;      // <= 0: greedy
  int32_t top_k = 0;          // 0: off
  float top_p = 1;            // 1: off
  float min_p = 0;            // 0: off
  float typical_p = 1;        // 1: off
  float xtc_probability = 0;  // 0: off
  float xtc_threshold = 1;
  float uniform = 0;                                     // in [0, 1)
  float xtc_uniform = 0;                                 // in [0, 1)
  const uint32_t* token_mask = nullptr;                  // models::MaskWords words; null: every token is allowed
  const std::vector<Adjustment>* adjustments = nullptr;  // at most models::AdjustmentsPerRow, distinct ids; null: none
  int32_t logprob_id = -1;                               // whose log-probability is wanted; -1: the sampled token's
  int32_t want_logprobs = -1;                            // -1: none; 0: that token's; n: also the n best
};

class LateRows;

struct StepPlan {
  models::Phase phase = models::Phase::kDecode;
  std::vector<int32_t> tokens;                            // [T]; -1: taken from the token store
  std::vector<int32_t> token_slots;                       // [T]: token store row to read; or empty: none is read
  std::vector<int32_t> positions;                         // [T]
  std::vector<int32_t> slots;                             // [T]: block * block_size + offset
  std::vector<int32_t> query_start;                       // [Q + 1]
  std::vector<const std::vector<int32_t>*> block_tables;  // [Q]
  std::vector<PlannedRow> rows;                           // [R]
  LateRows* late = nullptr;  // masks and adjustments that come while the step runs; null: all are there

  void Clear() {
    tokens.clear();
    token_slots.clear();
    positions.clear();
    slots.clear();
    query_start.assign(1, 0);
    block_tables.clear();
    rows.clear();
    late = nullptr;
  }
  int64_t num_tokens() const { return static_cast<int64_t>(tokens.size()); }
  int64_t num_requests() const { return static_cast<int64_t>(block_tables.size()); }
};

}  // namespace deepinfer::runner
