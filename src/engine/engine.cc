#include "engine/engine.h"

#include <algorithm>

#include "base/random.h"
#include "runner/buckets.h"

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

// Where decoding sequences are not part of the step, the smallest graph runs whole however few its tokens are. Where
// they are, products of fewer rows than a few run well below their best speed.
PrefillLimits PaceOf(bool mixes_steps, const std::vector<int64_t>& buckets, const EngineOptions& options) {
  constexpr int64_t kSmallest = 16;
  if (!mixes_steps) return {.largest = std::min(buckets.front(), options.chunked_prefill_size)};
  const int64_t largest = std::min(buckets.back(), options.chunked_prefill_size);
  return {.budget_ms = static_cast<double>(options.prefill_step_ms),
          .smallest = std::min(kSmallest, largest),
          .largest = largest};
}

// Whether all that a model keeps of a prefix lies in blocks.
bool BlocksCanBeShared(const runner::ModelRunner& runner) {
  const std::vector<models::StateSpec> states = runner.model().States(*runner.options().kv, runner.ranks());
  return std::all_of(states.begin(), states.end(), [](const models::StateSpec& state) {
    return state.kind == models::StateKind::kPaged && state.snapshot == models::Snapshot::kBlocks;
  });
}

}  // namespace

Engine::Engine(runner::ModelRunner* runner, EngineOptions options)
    : runner_(runner),
      options_(options),
      scheduler_(LimitsOf(*runner), runner->num_blocks()),
      pace_(PaceOf(scheduler_.MixesSteps(), runner->options().prefill_buckets, options)),
      blocks_can_be_shared_(BlocksCanBeShared(*runner)),
      hash_seed_(RandomSeed()) {
  if (options.async_stepping) thread_ = std::make_unique<StepThread>(runner);
}

Engine::~Engine() {
  Drain();
}

Status Engine::CheckPrompt(const GenerationRequest& request, int64_t max_total) const {
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t context = runner_->options().max_model_len;
  if (prompt == 0) return MakeError(ErrorCode::kInvalidArgument, "prompt", "is empty");
  // What is asked of the prompt alone may fill the context; generation needs room for one token.
  if (prompt > context || (prompt == context && !request.wants_prompt_rows())) {
    return MakeError(ErrorCode::kInvalidArgument, "prompt",
                     "has {} tokens, the context is {} (context_length_exceeded)", prompt, context);
  }
  const int64_t vocab = runner_->model().info().vocab_size;
  for (const int32_t id : request.prompt) {
    if (id < 0 || id >= vocab) {
      return MakeError(ErrorCode::kInvalidArgument, "prompt", "token id {} is not in [0, {})", id, vocab);
    }
  }
  const int64_t wanted = request.params.max_tokens;
  if (wanted == 0 && !request.wants_prompt_rows()) {
    return MakeError(ErrorCode::kInvalidArgument, "max_tokens", "must be >= 1, got 0");
  }
  if (wanted > context - prompt) {
    return MakeError(ErrorCode::kInvalidArgument, "max_tokens", "is {}, but the context of {} has room for {}", wanted,
                     context, context - prompt);
  }
  if (!scheduler_.CanHold(max_total)) {
    return MakeError(ErrorCode::kInvalidArgument, "prompt", "with its answer has {} tokens, KV blocks hold {}",
                     max_total, scheduler_.blocks().usable_blocks() * runner_->options().block_size);
  }
  return {};
}

int64_t Engine::MaxTotal(const GenerationRequest& request) const {
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t room = runner_->options().max_model_len - prompt;
  const int64_t wanted = request.params.max_tokens;
  const bool all_there_is = wanted == -1 && !request.prompt_logits;
  return prompt + (all_there_is ? room : std::clamp<int64_t>(wanted, 0, std::max<int64_t>(room, 0)));
}

Result<CheckedRequest> Engine::Check(GenerationRequest request) const {
  DI_RETURN_IF_ERROR(Validate(request, runner_->model().info().vocab_size));
  const int64_t max_total = MaxTotal(request);
  DI_RETURN_IF_ERROR(CheckPrompt(request, max_total));
  return CheckedRequest(std::move(request), max_total);
}

Result<int64_t> Engine::Add(GenerationRequest request, RequestObserver* observer) {
  DI_ASSIGN_OR_RETURN(CheckedRequest checked, Check(std::move(request)));
  return Add(std::move(checked), observer);
}

Result<int64_t> Engine::Add(CheckedRequest request, RequestObserver* observer) {
  const int64_t max_total = request.max_total_;
  auto owner = std::make_unique<ActiveRequest>();
  owner->id = next_id_;
  owner->request = std::move(request.request_);
  owner->observer = observer;
  owner->queued = Clock::now();
  owner->unfinished = owner->request.n;
  owner->shares_blocks = blocks_can_be_shared_ && (options_.prefix_caching || owner->request.n > 1);
  // Without a cache the name holds the request, so that only its own choices find its blocks.
  const uint64_t own = options_.prefix_caching ? 0 : static_cast<uint64_t>(owner->id);
  owner->root = RootHash(owner->request.cache_salt, hash_seed_ ^ own);
  const int64_t block = runner_->options().block_size;
  const auto blocks = static_cast<size_t>((max_total + block - 1) / block);
  for (uint32_t choice = 0; choice < static_cast<uint32_t>(owner->request.n); ++choice) {
    auto sequence = std::make_unique<Sequence>(owner.get(), choice);
    sequence->max_total = max_total;
    DI_ASSIGN_OR_RETURN(sequence->controls,
                        RowControls::Create(owner->request, runner_->model().info().vocab_size, max_total));
    sequence->tokens.reserve(static_cast<size_t>(max_total + 1));
    sequence->block_table.reserve(blocks);
    sequence->hashes.reserve(blocks);
    sequence->times.queued = owner->queued;
    owner->choices.push_back(std::move(sequence));
  }
  for (const auto& sequence : owner->choices) scheduler_.Add(sequence.get());
  if (owner->request.deadline) deadlines_.insert({*owner->request.deadline, owner->id});
  ++stats_.accepted_requests;
  stats_.prompt_tokens += static_cast<int64_t>(owner->request.prompt.size());
  requests_[owner->id] = std::move(owner);
  return next_id_++;
}

void Engine::Cancel(int64_t id) {
  cancelled_.push_back(id);
}

void Engine::EndCancelled() {
  // By index: an observer may cancel from within its OnFinish.
  for (size_t i = 0; i < cancelled_.size(); ++i) EndRequest(cancelled_[i], FinishReason::kCancelled, std::nullopt);
  cancelled_.clear();
}

void Engine::EndExpired(Clock::time_point now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    EndRequest(deadlines_.begin()->second, FinishReason::kDeadline, std::nullopt);
  }
}

void Engine::EndRequest(int64_t id, FinishReason reason, const std::optional<Error>& error) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  const ActiveRequest& request = *found->second;
  for (int64_t i = 0, left = request.unfinished; left > 0; ++i) {
    Sequence* sequence = request.choices[i].get();
    if (sequence == nullptr) continue;
    --left;
    Finish(sequence, reason, error);  // the last one takes the request with it
  }
}

bool Engine::MayOverlap() const {
  return thread_ != nullptr && num_in_flight_ == 1 && in_flight_[0]->overlaps;
}

Status Engine::LaunchNext() {
  const bool ahead = num_in_flight_ > 0;
  LaunchedStep* step = in_flight_[0] == &steps_[0] ? &steps_[1] : &steps_[0];
  const Preemption preemption = ahead ? Preemption::kForbidden : Preemption::kAllowed;
  if (!scheduler_.Next(preemption, pace_.Next(), &step->plan, &step->scheduled)) return {};
  if (options_.check_invariants) DI_RETURN_IF_ERROR(scheduler_.CheckPlan(step->plan, step->scheduled));
  CountStep(*step);
  step->FindLateRows();
  step->reads_logits = false;
  for (const ScheduledSequence& entry : step->scheduled) {
    Sequence* sequence = entry.sequence;
    const bool of_prompt = entry.first_token < static_cast<int64_t>(sequence->request.prompt.size());
    step->reads_logits = step->reads_logits || (sequence->wants_prompt_rows() && of_prompt);
    if (sequence->times.first_scheduled == Clock::time_point()) sequence->times.first_scheduled = Clock::now();
    sequence->owner->started = true;
  }
  step->overlaps = thread_ != nullptr && !step->reads_logits;
  step->on_thread = ahead || step->overlaps;
  in_flight_[num_in_flight_++] = step;
  stats_.overlapped_steps += ahead ? 1 : 0;
  if (step->on_thread) {
    thread_->Launch(step);
    return {};
  }
  const Clock::time_point start = Clock::now();
  RunStep(runner_, step);
  model_time_ += Clock::now() - start;
  return {};
}

void Engine::CountStep(const LaunchedStep& step) {
  const bool prefill = step.plan.phase == models::Phase::kPrefill;
  const std::vector<int64_t>& buckets =
      prefill ? runner_->options().prefill_buckets : runner_->options().decode_buckets;
  stats_.last_live_tokens = step.plan.num_tokens();
  stats_.last_bucket_tokens = runner::SelectBucket(buckets, step.plan.num_tokens());
  stats_.live_tokens += stats_.last_live_tokens;
  stats_.bucket_tokens += stats_.last_bucket_tokens;
  ++(prefill ? stats_.prefill_steps : stats_.decode_steps);
}

void Engine::Await(LaunchedStep* step) {
  if (!step->on_thread) return;
  const Clock::time_point start = Clock::now();
  thread_->Wait(step);
  model_time_ += Clock::now() - start;
}

Status Engine::Step() {
  const Clock::time_point start = Clock::now();
  model_time_ = {};
  EndCancelled();
  EndExpired(start);
  if (!requests_.empty()) {
    if (num_in_flight_ == 0) DI_RETURN_IF_ERROR(LaunchNext());
    if (MayOverlap()) DI_RETURN_IF_ERROR(LaunchNext());
    if (num_in_flight_ == 0) {
      const Error error{ErrorCode::kResourceExhausted,
                        fmt::format("no request can run: {} KV blocks are too few", runner_->num_blocks() - 1),
                        "scheduler"};
      while (!requests_.empty()) EndRequest(requests_.begin()->first, FinishReason::kError, error);
      return {};
    }
    LaunchedStep* step = in_flight_[0];
    Await(step);
    if (step->status) pace_.Observe(step->plan.num_tokens(), step->run_ms);
    in_flight_[0] = in_flight_[1];
    in_flight_[--num_in_flight_] = nullptr;
    Deliver(step);
    if (num_in_flight_ > 0) in_flight_[0]->PublishLateRows();
  }
  if (requests_.empty()) Drain();
  stats_.last_host_ns = std::chrono::nanoseconds(Clock::now() - start - model_time_).count();
  stats_.host_ns += stats_.last_host_ns;
  return options_.check_invariants ? scheduler_.CheckInvariants() : Status();
}

// What is still on its way belongs to nobody.
void Engine::Drain() {
  for (int i = 0; i < num_in_flight_; ++i) in_flight_[i]->PublishLateRows();
  for (; num_in_flight_ > 0; --num_in_flight_) {
    LaunchedStep* step = in_flight_[num_in_flight_ - 1];
    Await(step);
    for (const ScheduledSequence& entry : step->scheduled) stats_.overrun_tokens += entry.samples ? 1 : 0;
    in_flight_[num_in_flight_ - 1] = nullptr;
  }
}

Status Engine::RunUntilIdle() {
  while (HasWork()) DI_RETURN_IF_ERROR(Step());
  return {};
}

EngineStats Engine::stats() const {
  EngineStats stats = stats_;
  const BlockManager& blocks = scheduler_.blocks();
  stats.running = static_cast<int64_t>(scheduler_.running().size());
  stats.waiting = static_cast<int64_t>(scheduler_.waiting().size());
  stats.kv_blocks = blocks.usable_blocks();
  stats.kv_blocks_used = blocks.usable_blocks() - blocks.free_blocks();
  stats.kv_blocks_cached = blocks.cached_blocks();
  stats.prefix_queries = scheduler_.prefix_queries();
  stats.prefix_hits = scheduler_.prefix_hits();
  stats.preemptions = scheduler_.preemptions();
  stats.compiles_after_ready = runner_->cache().compiles_after_ready();
  return stats;
}

}  // namespace deepinfer::engine
