// The engine's own record of a request and of each of its choices: tokens so far, how many are computed, blocks and
// slot. Plain data, owned by the engine.
//
// Steps are launched before the tokens of earlier ones are read. `computed` and `pending` speak of everything launched,
// `tokens` of what was read.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/block_manager.h"
#include "engine/request.h"
#include "engine/row_controls.h"

namespace deepinfer::engine {

struct Sequence;

// What the choices of a request have in common.
struct ActiveRequest {
  int64_t id = 0;
  GenerationRequest request;
  RequestObserver* observer = nullptr;
  BlockHash root;              // of its blocks' names
  bool shares_blocks = false;  // its full blocks are published and looked up
  bool prompt_ready = false;   // the first choice computed the prompt, or ended: the others may start
  bool started = false;        // a step was planned
  int64_t cached_tokens = 0;   // of the prompt, found by the first choice
  Clock::time_point queued;
  int64_t unfinished = 0;  // choices
  std::vector<std::unique_ptr<Sequence>> choices;
};

struct Sequence {
  Sequence(ActiveRequest* request_owner, uint32_t index)
      : owner(request_owner), request(request_owner->request), choice(index), tokens(request.prompt) {}

  ActiveRequest* owner;
  const GenerationRequest& request;
  uint32_t choice;
  std::shared_ptr<RowControls> controls;  // also kept by launched steps, whose plans point into it

  std::vector<int32_t> tokens;     // prompt, then what was generated and read
  int64_t pending = 0;             // tokens sampled, or to be sampled by launched steps, and not yet read
  int64_t computed = 0;            // tokens whose KV is written, once every launched step has run
  int64_t prompt_logits_done = 0;  // positions reported
  BlockTable block_table;
  std::vector<BlockHash> hashes;  // of full blocks, as far as they were needed
  int64_t reused = 0;             // tokens of blocks that were found: they are not written
  int64_t published = 0;          // blocks
  int32_t slot = -1;              // token store row; -1: waiting
  bool last_in_store = false;     // that row holds the last token; lost with the row in a preemption
  int64_t max_total = 0;          // prompt + generated at most
  ChoiceTimes times;

  int64_t length() const { return static_cast<int64_t>(tokens.size()) + pending; }
  bool wants_prompt_rows() const { return request.wants_prompt_rows() && choice == 0; }
  bool may_start() const { return choice == 0 || owner->prompt_ready; }
  // Tokens that steps yet to be planned have to compute. The last token of all is never an input.
  int64_t to_compute() const { return length() - computed - (pending > 0 && length() >= max_total ? 1 : 0); }
  // All but the last token are computed and the store has that one: the next step is a decode.
  bool ready_to_decode() const { return last_in_store && computed == length() - 1 && to_compute() > 0; }
  // What runs first and is preempted last.
  bool Before(const Sequence& other) const {
    if (request.priority != other.request.priority) return request.priority < other.request.priority;
    return owner->id != other.owner->id ? owner->id < other.owner->id : choice < other.choice;
  }
};

}  // namespace deepinfer::engine
