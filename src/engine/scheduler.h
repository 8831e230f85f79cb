// Writes the next StepPlan: which sequences take part, and with how many tokens.
//
// While sequences decode, a step computes few tokens of prompts, so that nobody waits long for his next token. Where
// prefill graphs have places for all of them, decoding sequences are part of that step with a token each: the weights
// are read once for all. Elsewhere prefill and decode steps take turns. Sequences are ordered by priority, then
// arrival, then choice. Waiting ones enter in that order when there is a slot and there are blocks for their next
// chunk; what their prefix finds among published blocks is not computed again, and the choices of a request wait until
// the first one has computed the prompt, then compute its last, partial block each for itself. That needs no copy of a
// block, works wherever a prefix can be shared, gives each choice its own first row to sample, and is exact: a token's
// KV does not depend on how its prompt is cut. When a decoding sequence finds no block, the last running one gives its
// blocks back and is recomputed later.
//
// A plan counts as carried out when it is returned: the next one may be planned before its tokens are known. Owned by
// the engine; not thread-safe. Writing a decode plan allocates nothing once vectors have their size.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/block_manager.h"
#include "engine/sequence.h"
#include "runner/step_plan.h"

namespace deepinfer::engine {

struct SchedulerLimits {
  int64_t block_size = 0;
  int64_t max_seqs = 0;    // running at once, and rows of a step
  int64_t max_tokens = 0;  // of a prefill step
  int64_t max_prefill_requests = 0;
};

// What a step computes of one sequence.
struct ScheduledSequence {
  Sequence* sequence = nullptr;  // null: it ended while the step was on its way
  int64_t first_token = 0;       // position
  int64_t num_tokens = 0;
  int64_t first_row = 0;  // of its rows in the plan
  int64_t num_rows = 0;
  bool samples = false;  // its last row's token is the next one
};

// Whether planning may take blocks from running sequences. Not while a step is on its way: its tokens would be lost.
enum class Preemption { kAllowed, kForbidden };

class Scheduler {
 public:
  Scheduler(SchedulerLimits limits, int64_t num_blocks);

  void Add(Sequence* sequence);     // into the queue
  void Remove(Sequence* sequence);  // finished or cancelled: gives everything back
  bool empty() const { return waiting_.empty() && running_.empty(); }
  // Whether sequences that decode take part in prefill steps: those have places for all.
  bool MixesSteps() const { return limits_.max_prefill_requests >= limits_.max_seqs; }
  // Whether a sequence of so many tokens can run when it is alone.
  bool CanHold(int64_t tokens) const;

  // False if nothing can run now. plan and scheduled are overwritten. At most max_prompt_tokens, of a step that
  // decoding sequences wait for, are of prompts.
  bool Next(Preemption preemption, int64_t max_prompt_tokens, runner::StepPlan* plan,
            std::vector<ScheduledSequence>* scheduled);
  // A step has run and computed this without a fault: full blocks can be found from now on.
  void Computed(const ScheduledSequence& entry);
  // What the sequence computed is not to be trusted: none of its blocks can be found any longer.
  void Distrust(Sequence* sequence);

  Status CheckInvariants() const;
  // Of a plan that Next has just written: every token is written into a block of its own sequence that nobody else
  // owns, or, where its block was found, nowhere.
  Status CheckPlan(const runner::StepPlan& plan, const std::vector<ScheduledSequence>& scheduled) const;

  const std::vector<Sequence*>& running() const { return running_; }
  const std::vector<Sequence*>& waiting() const { return waiting_; }
  const BlockManager& blocks() const { return blocks_; }
  int64_t preemptions() const { return preemptions_; }
  int64_t prefix_queries() const { return prefix_queries_; }  // tokens looked up, of first choices at their start
  int64_t prefix_hits() const { return prefix_hits_; }        // of them, found

 private:
  bool Admit();
  bool TakeBlocks(Sequence* sequence);
  void ReusePrefix(Sequence* sequence);
  void CountReuse(Sequence* sequence);
  int64_t Decoding() const;
  bool Together(int64_t decoding) const;
  bool Plan(int64_t max_prompt_tokens, runner::StepPlan* plan, std::vector<ScheduledSequence>* scheduled);
  bool AddDecoding(runner::StepPlan* plan, std::vector<ScheduledSequence>* scheduled);
  void AddChunks(int64_t max_tokens, runner::StepPlan* plan, std::vector<ScheduledSequence>* scheduled);
  void AddChunk(Sequence* sequence, int64_t chunk, runner::StepPlan* plan, std::vector<ScheduledSequence>* scheduled);
  int64_t ChunkFor(const Sequence& sequence, int64_t tokens_left, int64_t rows_left) const;
  void AddRequest(Sequence* sequence, int64_t num_tokens, runner::StepPlan* plan);
  void AddRow(const Sequence& sequence, int64_t position, int32_t token, bool samples, runner::StepPlan* plan) const;
  void Commit(const std::vector<ScheduledSequence>& scheduled);
  bool EnsureBlocks(Sequence* sequence, int64_t tokens);
  void Preempt(Sequence* sequence);
  void HashBlocks(Sequence* sequence, int64_t blocks) const;
  std::span<const int32_t> TokensOf(const Sequence& sequence, int64_t block) const;
  Status CheckSequence(const Sequence& sequence) const;

  SchedulerLimits limits_;
  BlockManager blocks_;
  std::vector<int32_t> free_slots_;
  std::vector<Sequence*> waiting_;  // both in their order
  std::vector<Sequence*> running_;
  Preemption preemption_ = Preemption::kAllowed;  // of the plan being written
  bool last_was_prefill_ = false;
  int64_t preemptions_ = 0;
  int64_t prefix_queries_ = 0;
  int64_t prefix_hits_ = 0;
};

}  // namespace deepinfer::engine
