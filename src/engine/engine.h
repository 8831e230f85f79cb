// The step loop: requests in, tokens out to their observers. One thread at a time; an observer must not call back in,
// except for Cancel.
//
// Each Step hands out the tokens of one step of the model. With EngineOptions::async_stepping the model runs on a
// thread of its own and its next step is launched before the last one is handed out: sampled tokens are read from the
// token store inside the graph, and a row's mask and penalties, which follow from the token before it, reach a running
// step right before it samples. A sequence may turn out to have ended while it takes part in the next step: what that
// computes of it is dropped; its block was its own until then, and whoever gets it next runs later. When Step returns
// with nothing left to do, no step is on its way.
//
// A step's error, or a NaN in one row's logits, ends the requests it concerns with an error; others go on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/error.h"
#include "engine/engine_options.h"
#include "engine/engine_stats.h"
#include "engine/prefill_pace.h"
#include "engine/request.h"
#include "engine/scheduler.h"
#include "engine/step_thread.h"
#include "runner/model_runner.h"

namespace deepinfer::engine {

// A request that its engine can run, and how long it may become. Only Engine::Check makes one. Plain data.
class CheckedRequest {
 public:
  const GenerationRequest& request() const { return request_; }

 private:
  friend class Engine;
  CheckedRequest(GenerationRequest request, int64_t max_total) : request_(std::move(request)), max_total_(max_total) {}

  GenerationRequest request_;
  int64_t max_total_;  // tokens, prompt and answer
};

class Engine {
 public:
  // The runner must outlive the engine and run no steps for anybody else meanwhile.
  explicit Engine(runner::ModelRunner* runner, EngineOptions options = {});
  // Requests that are still there end without a word.
  ~Engine();

  // Fails, naming the parameter, if the request can never run: an empty or too long prompt, ids outside the vocabulary,
  // bad sampling values. May be called from any thread.
  Result<CheckedRequest> Check(GenerationRequest request) const;
  // The request waits from now on. Fails if its grammar cannot start. The observer must live until its last OnFinish.
  // Returns the request's id.
  Result<int64_t> Add(CheckedRequest request, RequestObserver* observer);
  // Check, then Add.
  Result<int64_t> Add(GenerationRequest request, RequestObserver* observer);
  // Takes effect before the next step; unknown ids are ignored.
  void Cancel(int64_t id);

  bool HasWork() const { return !requests_.empty(); }
  // Hands out one step. Errors of requests and of steps go to the observers of those they end; an error here is a fault
  // of this program (EngineOptions::check_invariants).
  Status Step();
  Status RunUntilIdle();

  EngineStats stats() const;
  int64_t max_running() const { return runner_->options().max_num_seqs; }  // sequences
  int64_t steps() const { return stats_.prefill_steps + stats_.decode_steps; }
  int64_t nan_rows() const { return stats_.nan_rows; }
  const Scheduler& scheduler() const { return scheduler_; }

 private:
  int64_t MaxTotal(const GenerationRequest& request) const;  // tokens, prompt and answer
  Status CheckPrompt(const GenerationRequest& request, int64_t max_total) const;
  void EndCancelled();
  void EndExpired(Clock::time_point now);
  void EndRequest(int64_t id, FinishReason reason, const std::optional<Error>& error);

  bool MayOverlap() const;
  Status LaunchNext();
  void CountStep(const LaunchedStep& step);
  void Await(LaunchedStep* step);
  void Drain();

  void Deliver(LaunchedStep* step);
  void DeliverOutput(const ScheduledSequence& entry, const runner::StepOutput& output);
  static void DeliverPromptRow(const Sequence* sequence, int64_t position, int64_t row,
                               const runner::StepOutput& output);
  static void ReadLogprobs(int64_t row, int32_t best, const runner::StepOutput& output, TokenEvent* event);
  bool DeliverPromptRows(const ScheduledSequence& entry, const runner::StepOutput& output);
  void DeliverToken(Sequence* sequence, int64_t row, const runner::StepOutput& output);
  void FinishNan(Sequence* sequence, int64_t position);
  void Finish(Sequence* sequence, FinishReason reason, std::optional<Error> error = std::nullopt);

  runner::ModelRunner* runner_;
  EngineOptions options_;
  Scheduler scheduler_;
  PrefillPace pace_;
  bool blocks_can_be_shared_;  // by the model's states
  uint64_t hash_seed_;
  std::map<int64_t, std::unique_ptr<ActiveRequest>> requests_;
  std::vector<int64_t> cancelled_;
  std::set<std::pair<Clock::time_point, int64_t>> deadlines_;
  int64_t next_id_ = 1;

  LaunchedStep steps_[StepThread::kDepth];
  LaunchedStep* in_flight_[StepThread::kDepth] = {};  // oldest first
  int num_in_flight_ = 0;
  std::unique_ptr<StepThread> thread_;  // null: steps run within Step

  EngineStats stats_;
  Clock::duration model_time_{};  // of this Step: running or waiting for the model
};

}  // namespace deepinfer::engine
