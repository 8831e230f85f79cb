#include "engine/engine.h"

#include <algorithm>

namespace deepinfer::engine {
namespace {

SchedulerLimits LimitsOf(const runner::ModelRunner& runner) {
  SchedulerLimits limits;
  limits.block_size = runner.options().block_size;
  limits.max_seqs = runner.options().max_num_seqs;
  limits.max_tokens = runner.options().prefill_buckets.back();
  limits.max_prefill_requests = runner.max_prefill_requests();
  return limits;
}

}  // namespace

Engine::Engine(runner::ModelRunner* runner, EngineOptions options)
    : runner_(runner), options_(options), scheduler_(LimitsOf(*runner), runner->num_blocks()) {}

Result<int64_t> Engine::Add(GenerationRequest request, RequestObserver* observer) {
  DI_RETURN_IF_ERROR(Validate(request));
  if (request.n != 1) return MakeError(ErrorCode::kUnsupported, "n", "must be 1, got {}", request.n);
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t context = runner_->options().max_model_len;
  if (prompt == 0) return MakeError(ErrorCode::kInvalidArgument, "prompt", "is empty");
  // Prompt logits alone may fill the context; generation needs room for one token.
  if (prompt > context || (prompt == context && !request.prompt_logits)) {
    return MakeError(ErrorCode::kInvalidArgument, "prompt",
                     "has {} tokens, the context is {} (context_length_exceeded)", prompt, context);
  }
  const int64_t vocab = runner_->model().info().vocab_size;
  for (const int32_t id : request.prompt) {
    if (id < 0 || id >= vocab) {
      return MakeError(ErrorCode::kInvalidArgument, "prompt", "token id {} is not in [0, {})", id, vocab);
    }
  }
  const int64_t room = context - prompt;
  const int64_t wanted = request.params.max_tokens;
  if (wanted == 0 && !request.prompt_logits) {
    return MakeError(ErrorCode::kInvalidArgument, "max_tokens", "must be >= 1, got 0");
  }
  if (wanted > room) {
    return MakeError(ErrorCode::kInvalidArgument, "max_tokens", "is {}, but the context of {} has room for {}", wanted,
                     context, room);
  }
  const auto waiting = static_cast<int64_t>(scheduler_.waiting().size());
  if (options_.max_waiting > 0 && waiting >= options_.max_waiting) {
    return MakeError(ErrorCode::kResourceExhausted, "queue", "is full: {} requests wait", waiting);
  }
  auto sequence = std::make_unique<Sequence>();
  sequence->id = next_id_++;
  sequence->tokens = request.prompt;
  sequence->max_total = prompt + (wanted >= 0 ? wanted : request.prompt_logits ? 0 : room);
  sequence->tokens.reserve(static_cast<size_t>(std::min(sequence->max_total + 1, context + 1)));
  const int64_t block = runner_->options().block_size;
  sequence->block_table.reserve(static_cast<size_t>((sequence->max_total + block - 1) / block));
  sequence->request = std::move(request);
  sequence->observer = observer;
  Sequence* raw = sequence.get();
  sequences_[raw->id] = std::move(sequence);
  scheduler_.Add(raw);
  return raw->id;
}

void Engine::Cancel(int64_t id) {
  if (const auto it = sequences_.find(id); it != sequences_.end()) it->second->cancelled = true;
}

void Engine::DropCancelled() {
  for (auto it = sequences_.begin(); it != sequences_.end();) {
    Sequence* sequence = (it++)->second.get();
    if (sequence->cancelled) Finish(sequence, FinishReason::kCancelled);
  }
}

Status Engine::Step() {
  DropCancelled();
  if (sequences_.empty()) return {};
  if (!scheduler_.Next(&plan_, &scheduled_)) {
    const Error error{ErrorCode::kResourceExhausted,
                      fmt::format("no request can run: {} KV blocks are too few", runner_->num_blocks() - 1),
                      "scheduler"};
    while (!sequences_.empty()) Finish(sequences_.begin()->second.get(), FinishReason::kError, error);
    return {};
  }
  ++steps_;
  auto output = runner_->Run(plan_);
  if (!output) {
    for (const ScheduledSequence& entry : scheduled_) Finish(entry.sequence, FinishReason::kError, output.error());
    return {};
  }
  for (const ScheduledSequence& entry : scheduled_) Deliver(entry, *output);
  return {};
}

Status Engine::RunUntilIdle() {
  while (HasWork()) DI_RETURN_IF_ERROR(Step());
  return {};
}

void Engine::Deliver(const ScheduledSequence& entry, const runner::StepOutput& output) {
  Sequence* sequence = entry.sequence;
  const int64_t first = sequence->computed;
  sequence->computed += entry.num_tokens;
  const int64_t prompt = static_cast<int64_t>(sequence->request.prompt.size());
  if (sequence->request.prompt_logits) {
    for (int64_t i = 0; i < entry.num_rows; ++i) {
      const int64_t position = first + i;
      if (output.sampled[entry.first_row + i] < 0) return FinishNan(sequence, position + 1);
      // After a preemption positions come again: each is reported once.
      if (position >= prompt || position < sequence->prompt_logits_done) continue;
      sequence->observer->OnPromptLogits(position, output.logits + (entry.first_row + i) * output.vocab, output.vocab);
      sequence->prompt_logits_done = position + 1;
    }
  }
  if (!entry.samples) return;
  if (sequence->length() >= sequence->max_total) {
    Finish(sequence, FinishReason::kLength);  // only prompt logits were asked for
    return;
  }
  DeliverToken(sequence, entry.first_row + entry.num_rows - 1, output);
}

void Engine::DeliverToken(Sequence* sequence, int64_t row, const runner::StepOutput& output) {
  TokenEvent event;
  event.request = sequence->id;
  event.id = output.sampled[row];
  if (event.id < 0) {
    FinishNan(sequence, sequence->length());
    return;
  }
  if (sequence->request.params.logprobs >= 0) {
    event.logprob = output.logprob[row];
    for (int32_t i = 0; i < std::min<int64_t>(sequence->request.params.logprobs, output.top_stride); ++i) {
      const int64_t at = row * output.top_stride + i;
      if (output.top_ids[at] >= 0) event.top.push_back({output.top_ids[at], output.top_logprobs[at]});
    }
  }
  sequence->tokens.push_back(event.id);
  sequence->last_in_store = true;
  const bool goes_on = sequence->observer->OnToken(event);
  const std::vector<int32_t>& stops = sequence->request.stop_ids;
  const bool eos =
      !sequence->request.params.ignore_eos && std::find(stops.begin(), stops.end(), event.id) != stops.end();
  if (!goes_on || eos) {
    Finish(sequence, FinishReason::kStop);
  } else if (sequence->length() >= sequence->max_total) {
    Finish(sequence, FinishReason::kLength);
  }
}

void Engine::FinishNan(Sequence* sequence, int64_t position) {
  ++nan_rows_;
  Finish(sequence, FinishReason::kError,
         Error{ErrorCode::kInternal, fmt::format("the logits at position {} hold a NaN (nan_logits)", position), ""});
}

void Engine::Finish(Sequence* sequence, FinishReason reason, std::optional<Error> error) {
  scheduler_.Remove(sequence);
  RequestObserver* observer = sequence->observer;
  FinishEvent event;
  event.request = sequence->id;
  event.reason = reason;
  event.error = std::move(error);
  event.prompt_tokens = static_cast<int64_t>(sequence->request.prompt.size());
  event.generated_tokens = sequence->length() - event.prompt_tokens;
  sequences_.erase(sequence->id);
  observer->OnFinish(event);
}

EngineStats Engine::stats() const {
  EngineStats stats;
  stats.running = static_cast<int64_t>(scheduler_.running().size());
  stats.waiting = static_cast<int64_t>(scheduler_.waiting().size());
  stats.kv_blocks = runner_->num_blocks() - 1;
  stats.preemptions = scheduler_.preemptions();
  stats.nan_rows = nan_rows_;
  stats.compiles_after_ready = runner_->cache().compiles_after_ready();
  return stats;
}

}  // namespace deepinfer::engine
