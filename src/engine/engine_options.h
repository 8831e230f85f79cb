// How an engine schedules, beside what its runner was compiled for. Plain data.
#pragma once

#include <cstdint>

namespace deepinfer::engine {

struct EngineOptions {
  // Tokens of a prefill step while sequences decode, which wait for it; at most what the runner has graphs for.
  // Products of 64 rows are already bound by arithmetic on a CPU, so more would make the wait longer and little else
  // faster.
  int64_t chunked_prefill_size = 64;
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
