// Writes the next StepPlan: which sequences take part, and with how many tokens.
//
// Prefill and decode steps are separate graphs. While sequences decode, at most one prefill chunk runs between two
// decode steps. Waiting sequences enter in order of arrival when there is a slot and there are blocks for their next
// chunk. When a decoding sequence finds no block, the youngest running one gives its blocks back and is recomputed
// later. Owned by the engine; not thread-safe. Writing a decode plan allocates nothing once vectors have their size.
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
  Sequence* sequence = nullptr;
  int64_t num_tokens = 0;
  int64_t first_row = 0;  // of its rows in the plan
  int64_t num_rows = 0;
  bool samples = false;  // its last row's token is the next one
};

class Scheduler {
 public:
  Scheduler(SchedulerLimits limits, int64_t num_blocks);

  void Add(Sequence* sequence);     // to the end of the queue
  void Remove(Sequence* sequence);  // finished or cancelled: gives everything back
  bool empty() const { return waiting_.empty() && running_.empty(); }

  // False if nothing can run. plan and scheduled are overwritten.
  bool Next(runner::StepPlan* plan, std::vector<ScheduledSequence>* scheduled);

  Status CheckInvariants() const;
  const std::vector<Sequence*>& running() const { return running_; }
  const std::vector<Sequence*>& waiting() const { return waiting_; }
  int64_t preemptions() const { return preemptions_; }

 private:
  bool Admit();
  bool PlanPrefill(runner::StepPlan* plan, std::vector<ScheduledSequence>* scheduled);
  bool PlanDecode(runner::StepPlan* plan, std::vector<ScheduledSequence>* scheduled);
  int64_t ChunkFor(const Sequence& sequence, int64_t tokens_left, int64_t rows_left) const;
  void AddRequest(Sequence* sequence, int64_t num_tokens, runner::StepPlan* plan);
  void AddRow(const Sequence& sequence, int32_t token, bool samples, runner::StepPlan* plan) const;
  bool EnsureBlocks(Sequence* sequence, int64_t tokens);
  void Preempt(Sequence* sequence);

  SchedulerLimits limits_;
  BlockManager blocks_;
  std::vector<int32_t> free_slots_;
  std::vector<Sequence*> waiting_;
  std::vector<Sequence*> running_;  // in order of arrival
  bool last_was_prefill_ = false;
  int64_t preemptions_ = 0;
};

}  // namespace deepinfer::engine
