#include "engine/step_thread.h"

#include <algorithm>
#include <chrono>

namespace deepinfer::engine {

void LaunchedStep::FindLateRows() {
  late_.Clear();
  late_entries_.clear();
  for (const ScheduledSequence& entry : scheduled) {
    const Sequence& sequence = *entry.sequence;
    const bool last_is_known = sequence.pending <= 1;  // one is sampled by this step itself
    if (!entry.samples || last_is_known || !sequence.request.depends_on_its_tokens()) continue;
    runner::PlannedRow& row = plan.rows[entry.first_row + entry.num_rows - 1];
    row.token_mask = nullptr;
    row.adjustments = nullptr;
    late_.rows.push_back({entry.first_row + entry.num_rows - 1});
    late_entries_.push_back(&entry);
  }
  plan.late = late_.rows.empty() ? nullptr : &late_;
}

void LaunchedStep::PublishLateRows() {
  if (late_entries_.empty()) return;
  for (size_t i = 0; i < late_entries_.size(); ++i) {
    const Sequence* sequence = late_entries_[i]->sequence;
    if (sequence == nullptr) continue;  // it has ended: what the row samples is dropped
    late_.rows[i].token_mask = sequence->controls->token_mask();
    late_.rows[i].adjustments = sequence->controls->adjustments();
  }
  late_entries_.clear();
  late_.Publish();
}

void LaunchedStep::KeepTables() {
  if (tables_.size() < plan.block_tables.size()) tables_.resize(plan.block_tables.size());
  for (size_t i = 0; i < plan.block_tables.size(); ++i) {
    tables_[i].reserve(plan.block_tables[i]->capacity());
    tables_[i] = *plan.block_tables[i];
    plan.block_tables[i] = &tables_[i];
  }
  controls_.clear();
  for (const ScheduledSequence& entry : scheduled) controls_.push_back(entry.sequence->controls);
}

void LaunchedStep::KeepOutput() {
  const size_t rows = plan.rows.size();
  const bool logprobs =
      std::any_of(plan.rows.begin(), plan.rows.end(), [](const auto& row) { return row.want_logprobs >= 0; });
  const auto keep = [](auto* values, size_t count, auto* copy) {
    copy->assign(values, values + count);
    return copy->data();
  };
  output.sampled = keep(output.sampled, rows, &sampled_);
  if (!logprobs) return;
  const size_t top = rows * static_cast<size_t>(output.top_stride);
  output.logprob = keep(output.logprob, rows, &logprob_);
  output.top_ids = keep(output.top_ids, top, &top_ids_);
  output.top_logprobs = keep(output.top_logprobs, top, &top_logprobs_);
}

void RunStep(runner::ModelRunner* runner, LaunchedStep* step) {
  const Clock::time_point start = Clock::now();
  auto output = runner->Run(step->plan);
  step->run_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  step->status = output ? Status() : Status(tl::unexpected(std::move(output.error())));
  step->output = output ? *output : runner::StepOutput();
}

StepThread::StepThread(runner::ModelRunner* runner) : runner_(runner), thread_([this] { Loop(); }) {}

StepThread::~StepThread() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  launched_.notify_one();
  thread_.join();
}

void StepThread::Launch(LaunchedStep* step) {
  step->KeepTables();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    DI_CHECK(queued_ < kDepth);
    step->done_ = false;
    queue_[queued_++] = step;
  }
  launched_.notify_one();
}

void StepThread::Wait(LaunchedStep* step) {
  std::unique_lock<std::mutex> lock(mutex_);
  done_.wait(lock, [step] { return step->done_; });
}

void StepThread::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    launched_.wait(lock, [this] { return stop_ || queued_ > 0; });
    if (queued_ == 0) return;
    LaunchedStep* step = queue_[0];
    lock.unlock();
    RunStep(runner_, step);
    if (step->status) step->KeepOutput();
    lock.lock();
    std::copy(queue_ + 1, queue_ + queued_, queue_);
    --queued_;
    step->done_ = true;
    done_.notify_one();
  }
}

}  // namespace deepinfer::engine
