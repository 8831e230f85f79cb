#include "engine/scheduler.h"

#include <algorithm>

#include "engine/philox.h"

namespace deepinfer::engine {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

Scheduler::Scheduler(SchedulerLimits limits, int64_t num_blocks) : limits_(limits), blocks_(num_blocks) {
  for (int64_t slot = limits.max_seqs - 1; slot >= 0; --slot) free_slots_.push_back(static_cast<int32_t>(slot));
}

void Scheduler::Add(Sequence* sequence) {
  waiting_.push_back(sequence);
}

void Scheduler::Remove(Sequence* sequence) {
  blocks_.Release(&sequence->block_table);
  if (sequence->slot >= 0) free_slots_.push_back(sequence->slot);
  sequence->slot = -1;
  sequence->last_in_store = false;
  std::erase(waiting_, sequence);
  std::erase(running_, sequence);
}

bool Scheduler::Admit() {
  if (waiting_.empty() || free_slots_.empty()) return false;
  Sequence* sequence = waiting_.front();
  const int64_t chunk = ChunkFor(*sequence, limits_.max_tokens, limits_.max_seqs);
  if (!blocks_.Grow(&sequence->block_table, CeilDiv(chunk, limits_.block_size))) return false;
  sequence->slot = free_slots_.back();
  free_slots_.pop_back();
  waiting_.erase(waiting_.begin());
  running_.push_back(sequence);
  return true;
}

bool Scheduler::Next(runner::StepPlan* plan, std::vector<ScheduledSequence>* scheduled) {
  int64_t preemptions = 0;
  do {
    preemptions = preemptions_;
    while (Admit()) {
    }
    const bool prefill_first = !last_was_prefill_;
    last_was_prefill_ = prefill_first;
    if (prefill_first ? PlanPrefill(plan, scheduled) : PlanDecode(plan, scheduled)) return true;
    last_was_prefill_ = !prefill_first;
    if (prefill_first ? PlanDecode(plan, scheduled) : PlanPrefill(plan, scheduled)) return true;
    // The only decoding sequence may have given up its own blocks: an older prompt that waits for them can go on now.
  } while (preemptions_ != preemptions);
  return false;
}

// Prompt logits need a row for every token, so they bound the chunk by the rows that are left.
int64_t Scheduler::ChunkFor(const Sequence& sequence, int64_t tokens_left, int64_t rows_left) const {
  const int64_t chunk = std::min(sequence.length() - sequence.computed, tokens_left);
  return sequence.request.prompt_logits ? std::min(chunk, rows_left) : chunk;
}

bool Scheduler::EnsureBlocks(Sequence* sequence, int64_t tokens) {
  const int64_t blocks = CeilDiv(tokens, limits_.block_size);
  while (!blocks_.Grow(&sequence->block_table, blocks)) {
    Sequence* youngest = running_.back();
    Preempt(youngest);
    if (youngest == sequence) return false;
  }
  return true;
}

void Scheduler::Preempt(Sequence* sequence) {
  ++preemptions_;
  Remove(sequence);
  sequence->computed = 0;
  waiting_.insert(waiting_.begin(), sequence);
}

void Scheduler::AddRow(const Sequence& sequence, int32_t token, bool samples, runner::StepPlan* plan) const {
  runner::PlannedRow row;
  row.token = token;
  if (samples) {
    const SamplingParams& params = sequence.request.params;
    row.commit_slot = sequence.slot;
    row.temperature = params.top_p == 0 ? 0.0f : static_cast<float>(params.temperature);
    row.top_k = params.top_k;
    row.top_p = static_cast<float>(params.top_p);
    row.min_p = static_cast<float>(params.min_p);
    row.want_logprobs = params.logprobs;
    if (row.temperature > 0)
      row.uniform = Uniform(params.seed, params.choice, static_cast<uint64_t>(sequence.length()));
  }
  plan->rows.push_back(row);
}

void Scheduler::AddRequest(Sequence* sequence, int64_t num_tokens, runner::StepPlan* plan) {
  const bool decode = plan->phase == models::Phase::kDecode;
  for (int64_t i = 0; i < num_tokens; ++i) {
    const int64_t position = sequence->computed + i;
    const int32_t block = sequence->block_table[position / limits_.block_size];
    plan->tokens.push_back(decode ? -1 : sequence->tokens[position]);
    if (decode) plan->token_slots.push_back(sequence->slot);
    plan->positions.push_back(static_cast<int32_t>(position));
    plan->slots.push_back(static_cast<int32_t>(block * limits_.block_size + position % limits_.block_size));
  }
  plan->query_start.push_back(static_cast<int32_t>(plan->num_tokens()));
  plan->block_tables.push_back(&sequence->block_table);
}

bool Scheduler::PlanPrefill(runner::StepPlan* plan, std::vector<ScheduledSequence>* scheduled) {
  plan->Clear();
  plan->phase = models::Phase::kPrefill;
  scheduled->clear();
  // Preemption reorders running_, so the candidates are walked by index and checked again.
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence* sequence = running_[i];
    const int64_t rows_left = limits_.max_seqs - static_cast<int64_t>(plan->rows.size());
    const int64_t chunk = ChunkFor(*sequence, limits_.max_tokens - plan->num_tokens(), rows_left);
    if (sequence->ready_to_decode() || chunk <= 0 || rows_left <= 0) continue;
    if (plan->num_requests() == limits_.max_prefill_requests) break;
    // Only free blocks: a prefill never pushes a running sequence out.
    if (!blocks_.Grow(&sequence->block_table, CeilDiv(sequence->computed + chunk, limits_.block_size))) continue;
    const int64_t first_token = plan->num_tokens();
    AddRequest(sequence, chunk, plan);
    ScheduledSequence entry{sequence, chunk, static_cast<int64_t>(plan->rows.size()), 0,
                            sequence->computed + chunk == sequence->length()};
    // One row per token if prompt logits are wanted, else the last one's if it samples.
    const int64_t first_row = sequence->request.prompt_logits ? 0 : chunk - (entry.samples ? 1 : 0);
    for (int64_t token = first_row; token < chunk; ++token) {
      AddRow(*sequence, static_cast<int32_t>(first_token + token), entry.samples && token == chunk - 1, plan);
      ++entry.num_rows;
    }
    scheduled->push_back(entry);
  }
  if (!scheduled->empty()) return true;
  // Every prompt waits for blocks and nobody decodes: the oldest takes those of the youngest.
  const bool anyone_decodes =
      std::any_of(running_.begin(), running_.end(), [](Sequence* s) { return s->ready_to_decode(); });
  if (running_.size() < 2 || anyone_decodes) return false;
  Preempt(running_.back());
  return PlanPrefill(plan, scheduled);
}

bool Scheduler::PlanDecode(runner::StepPlan* plan, std::vector<ScheduledSequence>* scheduled) {
  plan->Clear();
  plan->phase = models::Phase::kDecode;
  scheduled->clear();
  // Blocks first: getting one may preempt a younger sequence, which must then not be in the plan.
  for (size_t i = 0; i < running_.size(); ++i) {
    if (running_[i]->ready_to_decode()) EnsureBlocks(running_[i], running_[i]->length());
  }
  for (Sequence* sequence : running_) {
    if (!sequence->ready_to_decode()) continue;
    const int64_t token = plan->num_tokens();
    AddRequest(sequence, 1, plan);
    AddRow(*sequence, static_cast<int32_t>(token), /*samples=*/true, plan);
    scheduled->push_back({sequence, 1, token, 1, true});
  }
  return !scheduled->empty();
}

Status Scheduler::CheckInvariants() const {
  std::vector<const std::vector<int32_t>*> tables;
  for (const Sequence* sequence : running_) {
    tables.push_back(&sequence->block_table);
    const int64_t covered = static_cast<int64_t>(sequence->block_table.size()) * limits_.block_size;
    if (sequence->computed > covered) {
      return MakeError(ErrorCode::kInternal, "scheduler", "sequence {} has {} tokens in {} places", sequence->id,
                       sequence->computed, covered);
    }
  }
  for (const Sequence* sequence : waiting_) tables.push_back(&sequence->block_table);
  return blocks_.CheckInvariants(tables);
}

}  // namespace deepinfer::engine
