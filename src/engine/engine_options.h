// How an engine schedules, beside what its runner was compiled for. Plain data.
#pragma once

#include <cstdint>

namespace deepinfer::engine {

struct EngineOptions {
  // A step that decoding sequences wait for computes at most this many tokens of prompts, and at most as many as take
  // prefill_step_ms at the speed of the last steps (engine/prefill_pace.h). What is computed does not depend on either.
  int64_t chunked_prefill_size = 512;
  int64_t prefill_step_ms = 40;  // 0: not bounded by time
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
