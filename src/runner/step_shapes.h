// The steps that graphs are compiled for: from what was asked for, the model and the backend's limits to every default
// filled in, the number of KV blocks, and the shape of each (phase, bucket). Needs no backend and allocates nothing.
// Errors name the flag. Pure; thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/error.h"
#include "models/model.h"
#include "runner/runner_options.h"

namespace deepinfer::runner {

int64_t CeilDiv(int64_t a, int64_t b);

// What all graphs of one runner have in common.
struct StepSizes {
  int64_t prefill_rows = 1;
  int64_t prefill_requests = 1;
  int64_t block_size = 32;
  int64_t blocks = 0;      // with the null block 0
  int64_t max_blocks = 0;  // per request
  int64_t slots = 0;       // rows of the token store, without the dummy last one
  DType activations = DType::kBF16;
  DType kv = DType::kBF16;
  int64_t ranks = 1;

  models::StepShape ShapeFor(models::Phase phase, int64_t bucket) const;
  // Bytes of every state buffer of a rank, the token store included.
  std::map<std::string, int64_t> StateBytes(const std::vector<models::StateSpec>& specs) const;
};

struct StepConfig {
  RunnerOptions options;  // with every default filled in
  StepSizes sizes;

  const std::vector<int64_t>& buckets(models::Phase phase) const {
    return phase == models::Phase::kPrefill ? options.prefill_buckets : options.decode_buckets;
  }
};

// backend: its name, for errors.
Result<StepConfig> ResolveSteps(const models::Model& model, const std::string& backend, const backend::Caps& caps,
                                RunnerOptions options);

// Bytes of one token in all paged states of a rank.
int64_t PagedBytesPerToken(const std::vector<models::StateSpec>& specs);

}  // namespace deepinfer::runner
