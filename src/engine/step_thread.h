// Runs a model's steps one after the other on a thread of its own, in the order they were launched, so that the next
// step can be planned and the last one's tokens handed out meanwhile.
//
// A step carries its plan with copies of the block tables, which go on growing while it waits, the masks and
// adjustments of its rows, which outlive a sequence that ends meanwhile, and a copy of its outputs, which the step
// after it overwrites. Where a row's mask or adjustments follow from a token that is still to be read, they are its
// late rows: the step samples once they are published, and whoever launches it must publish them before waiting for it.
// The runner's own buffers are filled by the thread that runs the step, right before it runs: nobody writes to them
// while a step runs. Launch and Wait: one thread; nothing allocates once the vectors have their size.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/scheduler.h"
#include "runner/late_rows.h"
#include "runner/model_runner.h"

namespace deepinfer::engine {

struct LaunchedStep {
  runner::StepPlan plan;
  std::vector<ScheduledSequence> scheduled;
  bool reads_logits = false;  // of every row: they are not copied, so the step after it must wait until they were read
  bool overlaps = false;      // may be followed by another before it was read
  bool on_thread = false;     // else it has run already
  Status status;
  double run_ms = 0;  // of the step on the runner, waiting for late rows included
  // Valid until the step is launched again; `logits` only until the next one runs.
  runner::StepOutput output;

  // Of a new plan: takes what is not known yet out of its rows.
  void FindLateRows();
  // Every token that late rows follow from was read. Publishes them, if there are any and they were not yet.
  void PublishLateRows();
  // What the plan points to is the step's own from now on.
  void KeepTables();
  // The output lies in this step from now on, but for the logits.
  void KeepOutput();

 private:
  runner::LateRows late_;
  std::vector<const ScheduledSequence*> late_entries_;  // of late_.rows
  std::vector<BlockTable> tables_;
  std::vector<std::shared_ptr<const RowControls>> controls_;
  std::vector<int32_t> sampled_;
  std::vector<float> logprob_;
  std::vector<int32_t> top_ids_;
  std::vector<float> top_logprobs_;

  friend class StepThread;
  bool done_ = false;  // guarded by the thread's mutex
};

class StepThread {
 public:
  static constexpr int kDepth = 2;  // steps launched and not yet waited for: one runs, one is ready

  explicit StepThread(runner::ModelRunner* runner);
  ~StepThread();  // after the launched steps
  StepThread(const StepThread&) = delete;
  StepThread& operator=(const StepThread&) = delete;

  // step->plan is run after those launched before; the step must stay until it was waited for.
  void Launch(LaunchedStep* step);
  void Wait(LaunchedStep* step);

 private:
  void Loop();

  runner::ModelRunner* runner_;
  std::mutex mutex_;
  std::condition_variable launched_;
  std::condition_variable done_;
  LaunchedStep* queue_[kDepth] = {};
  int queued_ = 0;
  bool stop_ = false;
  std::thread thread_;  // last: it uses the others
};

// Runs step->plan here and now.
void RunStep(runner::ModelRunner* runner, LaunchedStep* step);

}  // namespace deepinfer::engine
