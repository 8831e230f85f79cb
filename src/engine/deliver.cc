// The second half of a step: its outputs to the observers, and the end of sequences.
#include <algorithm>

#include "engine/engine.h"

namespace deepinfer::engine {

void Engine::Deliver(LaunchedStep* step) {
  if (!step->status) ++stats_.failed_steps;
  for (const ScheduledSequence& entry : step->scheduled) {
    if (entry.sequence == nullptr) {
      stats_.overrun_tokens += entry.samples ? 1 : 0;
    } else if (!step->status) {
      Finish(entry.sequence, FinishReason::kError, step->status.error());
    } else {
      DeliverOutput(entry, step->output);
    }
  }
}

void Engine::DeliverOutput(const ScheduledSequence& entry, const runner::StepOutput& output) {
  Sequence* sequence = entry.sequence;
  if (sequence->wants_prompt_rows() && !DeliverPromptRows(entry, output)) return;
  const int64_t row = entry.first_row + entry.num_rows - 1;
  if (entry.samples && output.sampled[row] < 0) return FinishNan(sequence, entry.first_token + entry.num_tokens);
  scheduler_.Computed(entry);
  if (!entry.samples) return;
  if (sequence->length() >= sequence->max_total && sequence->pending == 0) {
    Finish(sequence, FinishReason::kLength);  // only prompt logits were asked for
    return;
  }
  DeliverToken(sequence, row, output);
}

// False if the sequence has ended.
bool Engine::DeliverPromptRows(const ScheduledSequence& entry, const runner::StepOutput& output) {
  Sequence* sequence = entry.sequence;
  const auto prompt = static_cast<int64_t>(sequence->request.prompt.size());
  for (int64_t i = 0; i < entry.num_rows; ++i) {
    const int64_t position = entry.first_token + i;
    if (output.sampled[entry.first_row + i] < 0) {
      FinishNan(sequence, position + 1);
      return false;
    }
    // After a preemption positions come again: each is reported once.
    if (position >= prompt || position < sequence->prompt_logits_done) continue;
    DeliverPromptRow(sequence, position, entry.first_row + i, output);
    sequence->prompt_logits_done = position + 1;
  }
  return true;
}

namespace {

// Its place when all tokens are ordered by their logits, as the best ones are.
int64_t RankOf(int32_t id, const float* logits, int64_t vocab) {
  const float own = logits[id];
  int64_t rank = 1;
  for (int64_t i = 0; i < id; ++i) rank += logits[i] >= own ? 1 : 0;
  for (int64_t i = id + 1; i < vocab; ++i) rank += logits[i] > own ? 1 : 0;
  return rank;
}

}  // namespace

void Engine::DeliverPromptRow(const Sequence* sequence, int64_t position, int64_t row,
                              const runner::StepOutput& output) {
  const GenerationRequest& request = sequence->request;
  RequestObserver* observer = sequence->owner->observer;
  const float* logits = output.logits + row * output.vocab;
  if (request.prompt_logits) observer->OnPromptLogits(position, logits, output.vocab);
  if (request.prompt_logprobs < 0 || position + 1 >= static_cast<int64_t>(request.prompt.size())) return;
  TokenEvent event;
  event.request = sequence->owner->id;
  event.id = request.prompt[position + 1];
  event.rank = RankOf(event.id, logits, output.vocab);
  ReadLogprobs(row, request.prompt_logprobs, output, &event);
  observer->OnPromptLogprob(position + 1, event);
}

void Engine::ReadLogprobs(int64_t row, int32_t best, const runner::StepOutput& output, TokenEvent* event) {
  event->logprob = output.logprob[row];
  for (int64_t i = 0; i < std::min<int64_t>(best, output.top_stride); ++i) {
    const int64_t at = row * output.top_stride + i;
    if (output.top_ids[at] >= 0) event->top.push_back({output.top_ids[at], output.top_logprobs[at]});
  }
}

void Engine::DeliverToken(Sequence* sequence, int64_t row, const runner::StepOutput& output) {
  const GenerationRequest& request = sequence->request;
  TokenEvent event;
  event.request = sequence->owner->id;
  event.choice = sequence->choice;
  event.id = output.sampled[row];
  if (request.params.logprobs >= 0) ReadLogprobs(row, request.params.logprobs, output, &event);
  sequence->tokens.push_back(event.id);
  --sequence->pending;
  ++stats_.generated_tokens;
  if (sequence->times.first_token == Clock::time_point()) sequence->times.first_token = Clock::now();
  const bool goes_on = sequence->owner->observer->OnToken(event);
  const std::vector<int32_t>& stops = request.stop_ids;
  const bool eos = !request.params.ignore_eos && std::find(stops.begin(), stops.end(), event.id) != stops.end();
  if (!goes_on || eos) return Finish(sequence, FinishReason::kStop);
  if (const Status accepted = sequence->controls->Accept(sequence->tokens); !accepted) {
    return Finish(sequence, FinishReason::kError, accepted.error());
  }
  if (sequence->controls->finished()) {
    Finish(sequence, FinishReason::kStop);
  } else if (static_cast<int64_t>(sequence->tokens.size()) >= sequence->max_total) {
    Finish(sequence, FinishReason::kLength);
  }
}

void Engine::FinishNan(Sequence* sequence, int64_t position) {
  ++stats_.nan_rows;
  scheduler_.Distrust(sequence);
  Finish(sequence, FinishReason::kError,
         Error{ErrorCode::kInternal, fmt::format("the logits at position {} hold a NaN (nan_logits)", position), ""});
}

void Engine::Finish(Sequence* sequence, FinishReason reason, std::optional<Error> error) {
  ActiveRequest* owner = sequence->owner;
  scheduler_.Remove(sequence);
  for (int i = 0; i < num_in_flight_; ++i) {
    for (ScheduledSequence& entry : in_flight_[i]->scheduled) {
      if (entry.sequence == sequence) entry.sequence = nullptr;
    }
  }
  FinishEvent event;
  event.request = owner->id;
  event.choice = sequence->choice;
  event.reason = reason;
  event.error = std::move(error);
  event.prompt_tokens = static_cast<int64_t>(owner->request.prompt.size());
  event.cached_tokens = owner->cached_tokens;
  event.generated_tokens = static_cast<int64_t>(sequence->tokens.size()) - event.prompt_tokens;
  event.times = sequence->times;
  event.times.finished = Clock::now();
  event.last = --owner->unfinished == 0;
  ++stats_.finished[static_cast<size_t>(reason)];
  if (sequence->choice == 0) owner->prompt_ready = true;
  RequestObserver* observer = owner->observer;
  owner->choices[sequence->choice].reset();
  if (event.last) {
    if (owner->request.deadline) deadlines_.erase({*owner->request.deadline, owner->id});
    requests_.erase(owner->id);
  }
  observer->OnFinish(event);
}

}  // namespace deepinfer::engine
