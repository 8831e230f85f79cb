// How an engine schedules, beside what its runner was compiled for. Plain data.
#pragma once

#include <cstdint>

namespace deepinfer::engine {

struct EngineOptions {
  // Requests that may wait for their first step; beyond that Engine::Add fails with kResourceExhausted. 0: no bound.
  int64_t max_waiting = 0;
  // Tokens of a prefill step while sequences decode, which wait for it; at most what the runner has graphs for. A step
  // of the smallest prefill graph is already bound by its products, so more would only make the wait longer.
  int64_t chunked_prefill_size = 128;
  // KV blocks of finished and running requests are found again by the tokens that lead to them. Off: only the choices
  // of one request share the blocks of its prompt.
  bool prefix_caching = true;
  // The next step is launched before the tokens of the last one are read. Tokens and their bits are the same either
  // way.
  bool async_stepping = true;
  // For tests: every plan and the state after every step are checked; Engine::Step fails where something is wrong.
  bool check_invariants = false;
};

}  // namespace deepinfer::engine
