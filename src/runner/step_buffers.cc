#include "runner/step_buffers.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace deepinfer::runner {
namespace {

// Copies the live values and pads the rest of the bucket.
template <class T>
void Write(T* out, const std::vector<T>& live, int64_t size, T padding) {
  std::copy(live.begin(), live.end(), out);
  std::fill(out + live.size(), out + size, padding);
}

}  // namespace

void StepBuffers::Free::operator()(std::byte* data) const {
  std::free(data);
}

template <class T>
T* StepBuffers::Allocate(const char* name, int64_t count, std::vector<backend::HostSlot>* slots) {
  const int64_t bytes = std::max<int64_t>(count, 1) * static_cast<int64_t>(sizeof(T));
  const size_t rounded = static_cast<size_t>((bytes + 63) / 64 * 64);
  auto* data = static_cast<std::byte*>(std::aligned_alloc(64, rounded));
  DI_CHECK(data != nullptr);
  std::memset(data, 0, std::min<size_t>(rounded, 4096));  // large outputs are touched by the graph, not here
  memory_.emplace_back(data);
  slots->push_back({name, data, bytes});
  return reinterpret_cast<T*>(data);
}

StepBuffers::StepBuffers(const BufferLimits& limits) : limits_(limits) {
  namespace in = models::input;
  namespace out = models::output;
  const int64_t tokens = limits.tokens;
  const int64_t rows = limits.rows;
  live_counts_ = Allocate<int32_t>(in::kLiveCounts, 3, &metadata_);
  token_ids_ = Allocate<int32_t>(in::kTokenIds, tokens, &metadata_);
  token_slots_ = Allocate<int32_t>(in::kTokenSlots, tokens, &metadata_);
  positions_ = Allocate<int32_t>(in::kPositions, tokens, &metadata_);
  slots_ = Allocate<int32_t>(in::kSlots, tokens, &metadata_);
  block_tables_ = Allocate<int32_t>(in::kBlockTables, limits.requests * limits.max_blocks, &metadata_);
  query_start_ = Allocate<int32_t>(in::kQueryStart, limits.requests + 1, &metadata_);
  sampling_positions_ = Allocate<int32_t>(in::kSamplingPositions, rows, &metadata_);
  row_to_slot_ = Allocate<int32_t>(in::kRowToSlot, rows, &metadata_);
  temperature_ = Allocate<float>(in::kTemperature, rows, &metadata_);
  top_k_ = Allocate<int32_t>(in::kTopK, rows, &metadata_);
  top_p_ = Allocate<float>(in::kTopP, rows, &metadata_);
  min_p_ = Allocate<float>(in::kMinP, rows, &metadata_);
  uniforms_ = Allocate<float>(in::kUniforms, rows, &metadata_);
  want_logprobs_ = Allocate<int32_t>(in::kWantLogprobs, rows, &metadata_);
  top_stride_ = std::min(models::kMaxTopLogprobs, limits.vocab);
  sampled_ = Allocate<int32_t>(out::kSampled, rows, &outputs_);
  logits_ = Allocate<float>(out::kLogits, rows * limits.vocab, &outputs_);
  logprob_ = Allocate<float>(out::kLogprob, rows, &outputs_);
  top_ids_ = Allocate<int32_t>(out::kTopIds, rows * top_stride_, &outputs_);
  top_logprobs_ = Allocate<float>(out::kTopLogprobs, rows * top_stride_, &outputs_);
  empty_.Clear();
}

void StepBuffers::Fill(const StepPlan& plan, const models::StepShape& shape) {
  live_counts_[0] = static_cast<int32_t>(plan.num_tokens());
  live_counts_[1] = static_cast<int32_t>(plan.rows.size());
  live_counts_[2] = static_cast<int32_t>(plan.num_requests());
  FillTokens(plan, shape);
  FillRequests(plan, shape);
  FillRows(plan, shape);
}

void StepBuffers::FillPadding(const models::StepShape& shape) {
  Fill(empty_, shape);
}

void StepBuffers::FillTokens(const StepPlan& plan, const models::StepShape& shape) {
  const bool prefill = shape.phase == models::Phase::kPrefill;
  Write(token_ids_, plan.tokens, shape.tokens, 0);
  Write(token_slots_, plan.token_slots, shape.tokens, -1);
  Write(positions_, plan.positions, shape.tokens, prefill && !plan.positions.empty() ? plan.positions.back() : 0);
  Write(slots_, plan.slots, shape.tokens, -1);
}

void StepBuffers::FillRequests(const StepPlan& plan, const models::StepShape& shape) {
  for (int64_t request = 0; request < shape.requests; ++request) {
    int32_t* row = block_tables_ + request * shape.max_blocks;
    int64_t used = 0;
    if (request < plan.num_requests()) {
      const std::vector<int32_t>& table = *plan.block_tables[request];
      used = static_cast<int64_t>(table.size());
      std::copy(table.begin(), table.end(), row);
    }
    std::fill(row + used, row + shape.max_blocks, -1);
  }
  Write(query_start_, plan.query_start, shape.requests + 1, plan.query_start.back());
}

void StepBuffers::FillRows(const StepPlan& plan, const models::StepShape& shape) {
  static constexpr PlannedRow kPadding;
  for (int64_t i = 0; i < shape.rows; ++i) {
    const PlannedRow& row = i < static_cast<int64_t>(plan.rows.size()) ? plan.rows[i] : kPadding;
    sampling_positions_[i] = row.token;
    row_to_slot_[i] = row.commit_slot;
    temperature_[i] = row.temperature;
    top_k_[i] = row.top_k;
    top_p_[i] = row.top_p;
    min_p_[i] = row.min_p;
    uniforms_[i] = row.uniform;
    want_logprobs_[i] = row.want_logprobs;
  }
}

}  // namespace deepinfer::runner
