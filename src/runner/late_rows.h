// What a step samples with that is known only while it already runs: masks and adjustments that follow from the token
// before. The scheduler's side writes `rows` and publishes them once; the step's side awaits them. Nothing allocates
// once the vector has its size.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "runner/step_plan.h"

namespace deepinfer::runner {

struct LateRow {
  int64_t row = 0;  // of StepPlan::rows, whose own mask and adjustments are null
  const uint32_t* token_mask = nullptr;
  const std::vector<Adjustment>* adjustments = nullptr;  // both as in PlannedRow; valid until the step has run
};

class LateRows {
 public:
  // For the next step; nobody may be waiting.
  void Clear();
  // `rows` is complete: nobody writes to it until Clear.
  void Publish();
  const std::vector<LateRow>& Await();

  std::vector<LateRow> rows;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool published_ = false;
};

}  // namespace deepinfer::runner
