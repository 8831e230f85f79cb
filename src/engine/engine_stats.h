// What an engine has done and holds at one moment: the numbers behind metrics. Counters count from the engine's start.
// Plain data.
#pragma once

#include <array>
#include <cstdint>

#include "engine/request.h"

namespace deepinfer::engine {

struct EngineStats {
  // Now. Sequences: each choice of a request is one.
  int64_t running = 0;
  int64_t waiting = 0;           // with the preempted ones
  int64_t kv_blocks = 0;         // without the null block
  int64_t kv_blocks_used = 0;    // owned by sequences
  int64_t kv_blocks_cached = 0;  // owned by none, kept for a prefix that may come again

  // Tokens.
  int64_t prefix_queries = 0;    // looked up in the prefix cache
  int64_t prefix_hits = 0;       // of them, found
  int64_t prompt_tokens = 0;     // of accepted requests
  int64_t generated_tokens = 0;  // delivered
  int64_t overrun_tokens = 0;    // computed for a sequence that had ended meanwhile, and dropped

  // Requests and choices.
  int64_t accepted_requests = 0;
  std::array<int64_t, kNumFinishReasons> finished{};  // choices, by FinishReason
  int64_t preemptions = 0;
  int64_t nan_rows = 0;

  // Steps.
  int64_t prefill_steps = 0;     // with tokens of prompts, sequences that decode in them or not
  int64_t decode_steps = 0;      // with none
  int64_t overlapped_steps = 0;  // launched before the step before them was read
  int64_t failed_steps = 0;
  int64_t live_tokens = 0;  // over all steps; live_tokens / bucket_tokens is how full buckets were
  int64_t bucket_tokens = 0;
  int64_t last_live_tokens = 0;  // of the last step
  int64_t last_bucket_tokens = 0;
  int64_t host_ns = 0;               // in Engine::Step outside the model: planning, delivering, observers
  int64_t last_host_ns = 0;          // of the last call
  int64_t compiles_after_ready = 0;  // must stay 0
};

}  // namespace deepinfer::engine
