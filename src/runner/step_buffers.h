// The host buffers of a step: metadata that the runner fills and outputs that the graph writes. Allocated once, at the
// largest size any graph needs; every graph sees the same addresses. Fill writes live values and padding and allocates
// nothing. Owned by one runner; not thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/error.h"
#include "models/step.h"
#include "runner/late_rows.h"
#include "runner/step_plan.h"

namespace deepinfer::runner {

struct BufferLimits {
  int64_t tokens = 0;
  int64_t rows = 0;
  int64_t requests = 0;
  int64_t max_blocks = 0;
  int64_t vocab = 0;
  int64_t adjustments = 0;  // of a row
};

class StepBuffers {
 public:
  // Fails, naming the buffer, if there is no memory for it.
  static Result<std::unique_ptr<StepBuffers>> Create(const BufferLimits& limits);

  static int64_t Bytes(const BufferLimits& limits);  // of everything, about

  // The plan must fit the shape; shape is a bucket.
  void Fill(const StepPlan& plan, const models::StepShape& shape);
  // Over what Fill has written. Touches the late inputs and nothing else.
  void FillLate(const std::vector<LateRow>& rows);
  static std::vector<std::string> LateInputs();
  // Padding only, with no live row: what a capture runs on.
  void FillPadding(const models::StepShape& shape);

  const std::vector<backend::HostSlot>& metadata() const { return metadata_; }
  const std::vector<backend::HostSlot>& outputs() const { return outputs_; }

  // Outputs of the last step.
  const int32_t* sampled() const { return sampled_; }  // [R]
  const float* logits() const { return logits_; }      // [R, vocab]
  const float* logprob() const { return logprob_; }    // [R]
  const int32_t* top_ids() const { return top_ids_; }  // [R, kMaxTopLogprobs], row stride top_stride()
  const float* top_logprobs() const { return top_logprobs_; }
  int64_t top_stride() const { return top_stride_; }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  explicit StepBuffers(const BufferLimits& limits) : limits_(limits) {}
  Status AllocateMetadata();
  Status AllocateSampling();
  Status AllocateOutputs();
  template <class T>
  Status Allocate(const char* name, int64_t count, std::vector<backend::HostSlot>* slots, T** buffer);
  void FillTokens(const StepPlan& plan, const models::StepShape& shape);
  void FillRequests(const StepPlan& plan, const models::StepShape& shape);
  void FillRows(const StepPlan& plan, const models::StepShape& shape);
  void FillMask(int64_t row, const uint32_t* mask);
  void FillAdjustments(int64_t row, const std::vector<Adjustment>* list);

  BufferLimits limits_;
  std::vector<std::unique_ptr<std::byte, Free>> memory_;
  std::vector<backend::HostSlot> metadata_;
  std::vector<backend::HostSlot> outputs_;
  int64_t top_stride_ = 0;
  StepPlan empty_;

  int32_t* live_counts_ = nullptr;
  int32_t* token_ids_ = nullptr;
  int32_t* token_slots_ = nullptr;
  int32_t* positions_ = nullptr;
  int32_t* slots_ = nullptr;
  int32_t* block_tables_ = nullptr;
  int32_t* query_start_ = nullptr;
  int32_t* sampling_positions_ = nullptr;
  int32_t* row_to_slot_ = nullptr;
  float* temperature_ = nullptr;
  int32_t* top_k_ = nullptr;
  float* top_p_ = nullptr;
  float* min_p_ = nullptr;
  float* typical_p_ = nullptr;
  float* xtc_probability_ = nullptr;
  float* xtc_threshold_ = nullptr;
  float* uniforms_ = nullptr;
  float* xtc_uniforms_ = nullptr;
  int32_t* has_mask_ = nullptr;
  uint32_t* token_mask_ = nullptr;
  int32_t* num_adjustments_ = nullptr;
  int32_t* adjust_ids_ = nullptr;
  float* bias_ = nullptr;
  float* repetition_ = nullptr;
  float* penalty_ = nullptr;
  int32_t* logprob_ids_ = nullptr;
  int32_t* want_logprobs_ = nullptr;
  int32_t* sampled_ = nullptr;
  float* logits_ = nullptr;
  float* logprob_ = nullptr;
  int32_t* top_ids_ = nullptr;
  float* top_logprobs_ = nullptr;
};

}  // namespace deepinfer::runner
