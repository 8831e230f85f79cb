// The step loop: requests in, tokens out to their observers. One thread at a time; an observer must not call back in,
// except for Cancel.
//
// A step's error, or a NaN in one row's logits, ends the requests it concerns with an error; others go on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/error.h"
#include "engine/engine_options.h"
#include "engine/engine_stats.h"
#include "engine/request.h"
#include "engine/scheduler.h"
#include "runner/model_runner.h"

namespace deepinfer::engine {

class Engine {
 public:
  explicit Engine(runner::ModelRunner* runner, EngineOptions options = {});

  // Fails, naming the parameter, if the request can never run: an empty or too long prompt, ids outside the vocabulary,
  // bad sampling values; with kResourceExhausted if the queue is full. The observer must live until its last OnFinish.
  // Returns the request's id.
  Result<int64_t> Add(GenerationRequest request, RequestObserver* observer);
  // Takes effect before the next step; unknown ids are ignored.
  void Cancel(int64_t id);

  bool HasWork() const { return !sequences_.empty(); }
  // Runs one step. Errors of requests and of steps go to the observers of those they end.
  Status Step();
  Status RunUntilIdle();

  EngineStats stats() const;
  int64_t steps() const { return steps_; }
  int64_t nan_rows() const { return nan_rows_; }
  const Scheduler& scheduler() const { return scheduler_; }

 private:
  void DropCancelled();
  void Deliver(const ScheduledSequence& entry, const runner::StepOutput& output);
  void DeliverToken(Sequence* sequence, int64_t row, const runner::StepOutput& output);
  void FinishNan(Sequence* sequence, int64_t position);
  void Finish(Sequence* sequence, FinishReason reason, std::optional<Error> error = std::nullopt);

  runner::ModelRunner* runner_;
  EngineOptions options_;
  Scheduler scheduler_;
  std::map<int64_t, std::unique_ptr<Sequence>> sequences_;
  int64_t next_id_ = 1;
  runner::StepPlan plan_;
  std::vector<ScheduledSequence> scheduled_;
  int64_t steps_ = 0;
  int64_t nan_rows_ = 0;
};

}  // namespace deepinfer::engine
