// The engine's own record of a request: its tokens so far, how many are computed, its blocks and its slot. Plain data,
// owned by the engine.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/request.h"

namespace deepinfer::engine {

struct Sequence {
  int64_t id = 0;
  GenerationRequest request;
  RequestObserver* observer = nullptr;

  std::vector<int32_t> tokens;     // prompt, then generated
  int64_t computed = 0;            // tokens whose KV is written
  int64_t prompt_logits_done = 0;  // positions reported
  std::vector<int32_t> block_table;
  int32_t slot = -1;           // token store row; -1: waiting
  bool last_in_store = false;  // that row holds the last token; lost with the row in a preemption
  int64_t max_total = 0;       // prompt + generated at most
  bool cancelled = false;

  int64_t length() const { return static_cast<int64_t>(tokens.size()); }
  // All but the last token are computed and the store has that one: the next step is a decode.
  bool ready_to_decode() const { return last_in_store && computed == length() - 1; }
};

}  // namespace deepinfer::engine
