// What must hold after every step: Scheduler::CheckInvariants and CheckPlan.
#include <set>

#include "engine/scheduler.h"

namespace deepinfer::engine {
namespace {

template <class... Args>
tl::unexpected<Error> Broken(const Sequence& sequence, fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(ErrorCode::kInternal, fmt::format("request {}, choice {}", sequence.owner->id, sequence.choice),
                   "{}", fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace

Status Scheduler::CheckSequence(const Sequence& s) const {
  const auto places = static_cast<int64_t>(s.block_table.size()) * limits_.block_size;
  if (s.computed > places) return Broken(s, "{} tokens are computed, in {} places", s.computed, places);
  if (s.computed > s.length()) return Broken(s, "{} of {} tokens are computed", s.computed, s.length());
  if (s.length() > std::max(s.max_total, static_cast<int64_t>(s.tokens.size()))) {
    return Broken(s, "{} tokens of at most {}", s.length(), s.max_total);
  }
  if (s.published * limits_.block_size > s.computed + (s.reused > s.computed ? 1 : 0)) {
    return Broken(s, "{} blocks are published, but {} tokens computed", s.published, s.computed);
  }
  for (size_t i = 0; i < s.block_table.size(); ++i) {
    const int32_t block = s.block_table[i];
    const int64_t end = static_cast<int64_t>(i + 1) * limits_.block_size;
    if (end <= s.computed || end <= s.reused) continue;
    if (blocks_.owners(block) != 1) return Broken(s, "block {} is not full, but has several owners", block);
    if (blocks_.published(block)) return Broken(s, "block {} is not full, but published", block);
  }
  return {};
}

Status Scheduler::CheckInvariants() const {
  std::vector<const BlockTable*> tables;
  std::set<int32_t> slots(free_slots_.begin(), free_slots_.end());
  for (const Sequence* sequence : running_) {
    tables.push_back(&sequence->block_table);
    DI_RETURN_IF_ERROR(CheckSequence(*sequence));
    if (!slots.insert(sequence->slot).second) return Broken(*sequence, "slot {} is not its own", sequence->slot);
  }
  if (static_cast<int64_t>(slots.size()) != limits_.max_seqs || *slots.begin() != 0) {
    return MakeError(ErrorCode::kInternal, "scheduler", "a slot was lost");
  }
  for (const Sequence* sequence : waiting_) {
    if (!sequence->block_table.empty() || sequence->slot >= 0 || sequence->pending > 0) {
      return Broken(*sequence, "waits, but holds something");
    }
  }
  for (const std::vector<Sequence*>* list : {&running_, &waiting_}) {
    for (size_t i = 1; i < list->size(); ++i) {
      if (!(*list)[i - 1]->Before(*(*list)[i])) return Broken(*(*list)[i], "is out of order");
    }
  }
  return blocks_.CheckInvariants(tables);
}

Status Scheduler::CheckPlan(const runner::StepPlan& plan, const std::vector<ScheduledSequence>& scheduled) const {
  const bool prefill = plan.phase == models::Phase::kPrefill;
  const auto within = [](int64_t count, int64_t limit) { return count >= 1 && count <= limit; };
  if (!within(plan.num_tokens(), prefill ? limits_.max_tokens : limits_.max_seqs) ||
      !within(plan.num_requests(), prefill ? limits_.max_prefill_requests : limits_.max_seqs) ||
      static_cast<int64_t>(plan.rows.size()) > limits_.max_seqs) {
    return MakeError(ErrorCode::kInternal, "scheduler", "a {} step of {} tokens, {} requests and {} rows",
                     ToString(plan.phase), plan.num_tokens(), plan.num_requests(), plan.rows.size());
  }
  std::set<int32_t> written;
  int64_t token = 0;
  for (const ScheduledSequence& entry : scheduled) {
    const Sequence& s = *entry.sequence;
    for (int64_t position = entry.first_token; position < entry.first_token + entry.num_tokens; ++position, ++token) {
      if (token >= plan.num_tokens()) return Broken(s, "the plan has {} tokens only", plan.num_tokens());
      const bool known = position < static_cast<int64_t>(s.tokens.size()) && plan.tokens[token] == s.tokens[position];
      const bool stored = plan.tokens[token] == -1 && plan.token_slots[token] == s.slot && s.last_in_store;
      if (!known && !(stored && position + 1 == entry.first_token + entry.num_tokens)) {
        return Broken(s, "position {} has neither its token nor a stored one", position);
      }
      if (plan.positions[token] != position) return Broken(s, "position {} for {}", plan.positions[token], position);
      const int32_t slot = plan.slots[token];
      if (position < s.reused) {
        if (slot != -1) return Broken(s, "position {} is in a found block, but written to {}", position, slot);
        continue;
      }
      const int32_t block = s.block_table.at(position / limits_.block_size);
      if (slot != block * limits_.block_size + position % limits_.block_size) {
        return Broken(s, "position {} is written to slot {}, its block is {}", position, slot, block);
      }
      if (block == 0 || blocks_.owners(block) != 1 || blocks_.published(block)) {
        return Broken(s, "position {} is written to block {}, which is not its own", position, block);
      }
      if (!written.insert(slot).second) return Broken(s, "slot {} is written twice", slot);
    }
  }
  if (token != plan.num_tokens()) {
    return MakeError(ErrorCode::kInternal, "scheduler", "{} of {} tokens belong to nobody", plan.num_tokens() - token,
                     plan.num_tokens());
  }
  return {};
}

}  // namespace deepinfer::engine
