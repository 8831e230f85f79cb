// Will a model fit? Weights, KV cache and step buffers against the memory this process may use, before anything is
// allocated: an error with the table and the largest context that fits, instead of a killed process. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/memory_limit.h"
#include "models/model.h"
#include "runner/step_buffers.h"
#include "runner/step_shapes.h"

namespace deepinfer::runner {

struct MemoryNeeds {
  int64_t weights = 0;    // bytes, as the backend holds them
  int64_t states = 0;     // KV cache and other states
  int64_t buffers = 0;    // metadata and outputs of a step
  int64_t per_token = 0;  // of the paged states
  int64_t context = 0;    // tokens of one sequence
};

// Of a model whose weights have these types, one table per rank.
MemoryNeeds NeedsOf(const models::Model& model, const std::vector<models::WeightTable>& types, const StepConfig& steps);
// The largest buffers of its steps.
BufferLimits LimitsOf(const models::Model& model, const StepConfig& steps);
// Tokens of KV cache that fit beside the weights and buffers; 0: none, or the limit is unknown.
int64_t TokensThatFit(const MemoryNeeds& needs, const MemoryLimit& limit);

// "weights 86 MiB + KV cache and states 720 MiB + step buffers 6 MiB = 812 MiB"
std::string DescribeMemory(const MemoryNeeds& needs);

// An unknown limit (0) allows everything.
Status CheckMemory(const MemoryNeeds& needs, const MemoryLimit& limit);

}  // namespace deepinfer::runner
