#include "engine/scheduler.h"

#include <algorithm>

namespace deepinfer::engine {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

void Insert(Sequence* sequence, std::vector<Sequence*>* ordered) {
  const auto before = [](const Sequence* a, const Sequence* b) { return a->Before(*b); };
  ordered->insert(std::upper_bound(ordered->begin(), ordered->end(), sequence, before), sequence);
}

}  // namespace

Scheduler::Scheduler(SchedulerLimits limits, int64_t num_blocks)
    : limits_(limits), blocks_(num_blocks, limits.block_size) {
  for (int64_t slot = limits.max_seqs - 1; slot >= 0; --slot) free_slots_.push_back(static_cast<int32_t>(slot));
  running_.reserve(static_cast<size_t>(limits.max_seqs));
}

bool Scheduler::CanHold(int64_t tokens) const {
  return CeilDiv(tokens, limits_.block_size) <= blocks_.usable_blocks();
}

void Scheduler::Add(Sequence* sequence) {
  Insert(sequence, &waiting_);
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
  if (free_slots_.empty()) return false;
  const auto first = std::find_if(waiting_.begin(), waiting_.end(), [](Sequence* s) { return s->may_start(); });
  if (first == waiting_.end() || !TakeBlocks(*first)) return false;
  Sequence* sequence = *first;
  sequence->slot = free_slots_.back();
  free_slots_.pop_back();
  waiting_.erase(first);
  Insert(sequence, &running_);
  return true;
}

// Blocks for the first chunk, those that hold it already among them.
bool Scheduler::TakeBlocks(Sequence* sequence) {
  ReusePrefix(sequence);
  const int64_t chunk = ChunkFor(*sequence, limits_.max_tokens, limits_.max_seqs);
  if (!blocks_.Grow(&sequence->block_table, CeilDiv(sequence->computed + chunk, limits_.block_size))) {
    blocks_.Release(&sequence->block_table);
    sequence->computed = 0;
    return false;
  }
  CountReuse(sequence);
  return true;
}

std::span<const int32_t> Scheduler::TokensOf(const Sequence& sequence, int64_t block) const {
  return std::span<const int32_t>(sequence.tokens).subspan(block * limits_.block_size, limits_.block_size);
}

void Scheduler::HashBlocks(Sequence* sequence, int64_t blocks) const {
  std::vector<BlockHash>& hashes = sequence->hashes;
  for (auto block = static_cast<int64_t>(hashes.size()); block < blocks; ++block) {
    const BlockHash& parent = hashes.empty() ? sequence->owner->root : hashes.back();
    hashes.push_back(ChainHash(parent, TokensOf(*sequence, block)));
  }
}

// At least one token is computed, for its logits: where everything was found, the last one, and it is not written.
void Scheduler::ReusePrefix(Sequence* sequence) {
  sequence->computed = sequence->reused = sequence->published = 0;
  if (!sequence->owner->shares_blocks || sequence->wants_prompt_rows()) return;
  const int64_t full = sequence->length() / limits_.block_size;
  HashBlocks(sequence, full);
  int64_t found = 0;
  for (; found < full; ++found) {
    const int32_t block = blocks_.Find(sequence->hashes[found], TokensOf(*sequence, found));
    if (block < 0) break;
    blocks_.Share(&sequence->block_table, block);
  }
  sequence->published = found;
  sequence->reused = found * limits_.block_size;
  sequence->computed = std::min(sequence->reused, sequence->length() - 1);
}

void Scheduler::CountReuse(Sequence* sequence) {
  if (sequence->choice > 0 || sequence->owner->started) return;
  sequence->owner->cached_tokens = sequence->computed;
  if (!sequence->owner->shares_blocks) return;
  prefix_queries_ += sequence->length();
  prefix_hits_ += sequence->computed;
}

bool Scheduler::Next(Preemption preemption, int64_t max_prompt_tokens, runner::StepPlan* plan,
                     std::vector<ScheduledSequence>* scheduled) {
  preemption_ = preemption;
  int64_t preemptions = 0;
  do {
    preemptions = preemptions_;
    while (Admit()) {
    }
    if (Plan(max_prompt_tokens, plan, scheduled)) {
      last_was_prefill_ = plan->phase == models::Phase::kPrefill;
      Commit(*scheduled);
      return true;
    }
    // The only decoding sequence may have given up its own blocks: an older prompt that waits for them can go on now.
  } while (preemptions_ != preemptions);
  return false;
}

void Scheduler::Commit(const std::vector<ScheduledSequence>& scheduled) {
  for (const ScheduledSequence& entry : scheduled) {
    Sequence* sequence = entry.sequence;
    sequence->computed += entry.num_tokens;
    if (!entry.samples || sequence->length() >= sequence->max_total) continue;
    ++sequence->pending;
    sequence->last_in_store = true;
  }
}

// What is asked of every prompt position needs a row for every token, so they bound the chunk by the rows that are
// left.
int64_t Scheduler::ChunkFor(const Sequence& sequence, int64_t tokens_left, int64_t rows_left) const {
  const int64_t chunk = std::min(sequence.to_compute(), tokens_left);
  return sequence.wants_prompt_rows() ? std::min(chunk, rows_left) : chunk;
}

bool Scheduler::EnsureBlocks(Sequence* sequence, int64_t tokens) {
  const int64_t blocks = CeilDiv(tokens, limits_.block_size);
  while (!blocks_.Grow(&sequence->block_table, blocks)) {
    if (preemption_ == Preemption::kForbidden) return false;
    Sequence* last = running_.back();
    Preempt(last);
    if (last == sequence) return false;
  }
  return true;
}

void Scheduler::Preempt(Sequence* sequence) {
  DI_CHECK(sequence->pending == 0);
  ++preemptions_;
  Remove(sequence);
  sequence->computed = 0;
  Insert(sequence, &waiting_);
}

// position: of the row's token. A row that samples nothing is one of the prompt, for what is asked of that.
void Scheduler::AddRow(const Sequence& sequence, int64_t position, int32_t token, bool samples,
                       runner::StepPlan* plan) const {
  runner::PlannedRow row;
  row.token = token;
  const GenerationRequest& request = sequence.request;
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  if (samples) {
    row.commit_slot = sequence.slot;
    sequence.controls->FillRow(sequence.choice, sequence.length(), &row);
  } else if (request.prompt_logprobs >= 0 && position + 1 < prompt) {
    row.logprob_id = request.prompt[position + 1];
    row.want_logprobs = request.prompt_logprobs;
  }
  plan->rows.push_back(row);
}

void Scheduler::AddRequest(Sequence* sequence, int64_t num_tokens, runner::StepPlan* plan) {
  const bool stored = sequence->ready_to_decode();
  for (int64_t i = 0; i < num_tokens; ++i) {
    const int64_t position = sequence->computed + i;
    const int32_t block = sequence->block_table[position / limits_.block_size];
    const bool written = position >= sequence->reused;
    plan->tokens.push_back(stored ? -1 : sequence->tokens[position]);
    plan->token_slots.push_back(stored ? sequence->slot : -1);
    plan->positions.push_back(static_cast<int32_t>(position));
    plan->slots.push_back(written ? static_cast<int32_t>(block * limits_.block_size + position % limits_.block_size)
                                  : -1);
  }
  plan->query_start.push_back(static_cast<int32_t>(plan->num_tokens()));
  plan->block_tables.push_back(&sequence->block_table);
}

int64_t Scheduler::Decoding() const {
  return std::count_if(running_.begin(), running_.end(), [](const Sequence* s) { return s->ready_to_decode(); });
}

// Prompts must have room beside those who decode, and rows, if each of their tokens needs one.
bool Scheduler::Together(int64_t decoding) const {
  const bool want_rows = std::any_of(running_.begin(), running_.end(),
                                     [](const Sequence* s) { return s->wants_prompt_rows() && !s->ready_to_decode(); });
  return MixesSteps() && !want_rows && decoding <= limits_.max_tokens / 2;
}

bool Scheduler::Plan(int64_t max_prompt_tokens, runner::StepPlan* plan, std::vector<ScheduledSequence>* scheduled) {
  plan->Clear();
  plan->phase = models::Phase::kDecode;
  scheduled->clear();
  const int64_t decoding = Decoding();
  const bool together = Together(decoding);
  if ((together || last_was_prefill_) && !AddDecoding(plan, scheduled)) return false;
  if (together || scheduled->empty()) {
    const int64_t room = limits_.max_tokens - plan->num_tokens();
    AddChunks(decoding > 0 ? std::min(room, max_prompt_tokens) : room, plan, scheduled);
  }
  if (!together && scheduled->empty() && !AddDecoding(plan, scheduled)) return false;
  if (!scheduled->empty()) return true;
  // Every prompt waits for blocks and nobody decodes: the first takes those of the last.
  if (preemption_ == Preemption::kForbidden || running_.size() < 2 || decoding > 0) return false;
  Preempt(running_.back());
  return Plan(max_prompt_tokens, plan, scheduled);
}

void Scheduler::AddChunks(int64_t max_tokens, runner::StepPlan* plan, std::vector<ScheduledSequence>* scheduled) {
  const int64_t end = plan->num_tokens() + max_tokens;
  for (Sequence* sequence : running_) {
    const int64_t rows_left = limits_.max_seqs - static_cast<int64_t>(plan->rows.size());
    const int64_t chunk = ChunkFor(*sequence, end - plan->num_tokens(), rows_left);
    if (sequence->ready_to_decode() || chunk <= 0 || rows_left <= 0) continue;
    if (plan->num_requests() == limits_.max_prefill_requests) break;
    // Only free blocks: a prefill never pushes a running sequence out.
    if (!blocks_.Grow(&sequence->block_table, CeilDiv(sequence->computed + chunk, limits_.block_size))) continue;
    AddChunk(sequence, chunk, plan, scheduled);
  }
}

void Scheduler::AddChunk(Sequence* sequence, int64_t chunk, runner::StepPlan* plan,
                         std::vector<ScheduledSequence>* scheduled) {
  plan->phase = models::Phase::kPrefill;
  const int64_t first_token = plan->num_tokens();
  AddRequest(sequence, chunk, plan);
  ScheduledSequence entry{sequence, sequence->computed,
                          chunk,    static_cast<int64_t>(plan->rows.size()),
                          0,        sequence->computed + chunk == sequence->length()};
  // One row per token if they are all asked for, else the last one's if it samples.
  const int64_t first_row = sequence->wants_prompt_rows() ? 0 : chunk - (entry.samples ? 1 : 0);
  for (int64_t token = first_row; token < chunk; ++token) {
    AddRow(*sequence, sequence->computed + token, static_cast<int32_t>(first_token + token),
           entry.samples && token == chunk - 1, plan);
    ++entry.num_rows;
  }
  scheduled->push_back(entry);
}

// False if one finds no block and none may be taken: without it, the others would go on taking blocks it waits for.
bool Scheduler::AddDecoding(runner::StepPlan* plan, std::vector<ScheduledSequence>* scheduled) {
  // Blocks first: getting one may preempt a later sequence, which must then not be in the plan.
  for (size_t i = 0; i < running_.size(); ++i) {
    if (!running_[i]->ready_to_decode() || EnsureBlocks(running_[i], running_[i]->length())) continue;
    if (preemption_ == Preemption::kForbidden) return false;
  }
  for (Sequence* sequence : running_) {
    if (!sequence->ready_to_decode()) continue;
    const int64_t token = plan->num_tokens();
    const auto row = static_cast<int64_t>(plan->rows.size());
    AddRequest(sequence, 1, plan);
    AddRow(*sequence, sequence->computed, static_cast<int32_t>(token), /*samples=*/true, plan);
    scheduled->push_back({sequence, sequence->computed, 1, row, 1, true});
  }
  return true;
}

void Scheduler::Computed(const ScheduledSequence& entry) {
  Sequence* sequence = entry.sequence;
  const int64_t computed = entry.first_token + entry.num_tokens;
  if (sequence->choice == 0 && computed >= static_cast<int64_t>(sequence->request.prompt.size())) {
    sequence->owner->prompt_ready = true;
  }
  if (!sequence->owner->shares_blocks) return;
  const int64_t full = computed / limits_.block_size;
  HashBlocks(sequence, full);
  for (; sequence->published < full; ++sequence->published) {
    const int64_t block = sequence->published;
    blocks_.Publish(sequence->block_table[block], sequence->hashes[block], TokensOf(*sequence, block));
  }
}

void Scheduler::Distrust(Sequence* sequence) {
  for (const int32_t block : sequence->block_table) blocks_.Forget(block);
}

}  // namespace deepinfer::engine
