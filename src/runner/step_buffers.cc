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
Status StepBuffers::Allocate(const char* name, int64_t count, std::vector<backend::HostSlot>* slots, T** buffer) {
  const int64_t bytes = std::max<int64_t>(count, 1) * static_cast<int64_t>(sizeof(T));
  const size_t rounded = static_cast<size_t>((bytes + 63) / 64 * 64);
  auto* data = static_cast<std::byte*>(std::aligned_alloc(64, rounded));
  if (data == nullptr) {
    return MakeError(ErrorCode::kResourceExhausted, name, "no memory for {} bytes; lower --max-num-seqs", bytes);
  }
  std::memset(data, 0, std::min<size_t>(rounded, 4096));  // large outputs are touched by the graph, not here
  memory_.emplace_back(data);
  slots->push_back({name, data, bytes});
  *buffer = reinterpret_cast<T*>(data);
  return {};
}

Result<std::unique_ptr<StepBuffers>> StepBuffers::Create(const BufferLimits& limits) {
  std::unique_ptr<StepBuffers> buffers(new StepBuffers(limits));
  DI_RETURN_IF_ERROR(buffers->AllocateMetadata());
  DI_RETURN_IF_ERROR(buffers->AllocateOutputs());
  buffers->empty_.Clear();
  return buffers;
}

int64_t StepBuffers::Bytes(const BufferLimits& limits) {
  const int64_t per_token = 4 * sizeof(int32_t);
  const int64_t words =
      18 + 2 * models::kMaxTopLogprobs + limits.vocab + models::MaskWords(limits.vocab) + 4 * limits.adjustments;
  const int64_t per_row = words * static_cast<int64_t>(sizeof(int32_t));
  return limits.tokens * per_token + limits.rows * per_row +
         limits.requests * (limits.max_blocks + 1) * static_cast<int64_t>(sizeof(int32_t));
}

Status StepBuffers::AllocateMetadata() {
  namespace in = models::input;
  const int64_t tokens = limits_.tokens;
  const int64_t rows = limits_.rows;
  DI_RETURN_IF_ERROR(Allocate(in::kLiveCounts, 3, &metadata_, &live_counts_));
  DI_RETURN_IF_ERROR(Allocate(in::kTokenIds, tokens, &metadata_, &token_ids_));
  DI_RETURN_IF_ERROR(Allocate(in::kTokenSlots, tokens, &metadata_, &token_slots_));
  DI_RETURN_IF_ERROR(Allocate(in::kPositions, tokens, &metadata_, &positions_));
  DI_RETURN_IF_ERROR(Allocate(in::kSlots, tokens, &metadata_, &slots_));
  DI_RETURN_IF_ERROR(Allocate(in::kBlockTables, limits_.requests * limits_.max_blocks, &metadata_, &block_tables_));
  DI_RETURN_IF_ERROR(Allocate(in::kQueryStart, limits_.requests + 1, &metadata_, &query_start_));
  DI_RETURN_IF_ERROR(Allocate(in::kSamplingPositions, rows, &metadata_, &sampling_positions_));
  DI_RETURN_IF_ERROR(Allocate(in::kRowToSlot, rows, &metadata_, &row_to_slot_));
  DI_RETURN_IF_ERROR(AllocateSampling());
  DI_RETURN_IF_ERROR(Allocate(in::kLogprobIds, rows, &metadata_, &logprob_ids_));
  return Allocate(in::kWantLogprobs, rows, &metadata_, &want_logprobs_);
}

Status StepBuffers::AllocateSampling() {
  namespace in = models::input;
  const int64_t rows = limits_.rows;
  const int64_t places = rows * limits_.adjustments;
  DI_RETURN_IF_ERROR(Allocate(in::kTemperature, rows, &metadata_, &temperature_));
  DI_RETURN_IF_ERROR(Allocate(in::kTopK, rows, &metadata_, &top_k_));
  DI_RETURN_IF_ERROR(Allocate(in::kTopP, rows, &metadata_, &top_p_));
  DI_RETURN_IF_ERROR(Allocate(in::kMinP, rows, &metadata_, &min_p_));
  DI_RETURN_IF_ERROR(Allocate(in::kTypicalP, rows, &metadata_, &typical_p_));
  DI_RETURN_IF_ERROR(Allocate(in::kXtcProbability, rows, &metadata_, &xtc_probability_));
  DI_RETURN_IF_ERROR(Allocate(in::kXtcThreshold, rows, &metadata_, &xtc_threshold_));
  DI_RETURN_IF_ERROR(Allocate(in::kUniforms, rows, &metadata_, &uniforms_));
  DI_RETURN_IF_ERROR(Allocate(in::kXtcUniforms, rows, &metadata_, &xtc_uniforms_));
  DI_RETURN_IF_ERROR(Allocate(in::kHasMask, rows, &metadata_, &has_mask_));
  DI_RETURN_IF_ERROR(Allocate(in::kTokenMask, rows * models::MaskWords(limits_.vocab), &metadata_, &token_mask_));
  DI_RETURN_IF_ERROR(Allocate(in::kNumAdjustments, rows, &metadata_, &num_adjustments_));
  DI_RETURN_IF_ERROR(Allocate(in::kAdjustIds, places, &metadata_, &adjust_ids_));
  DI_RETURN_IF_ERROR(Allocate(in::kBias, places, &metadata_, &bias_));
  DI_RETURN_IF_ERROR(Allocate(in::kRepetition, places, &metadata_, &repetition_));
  return Allocate(in::kPenalty, places, &metadata_, &penalty_);
}

Status StepBuffers::AllocateOutputs() {
  namespace out = models::output;
  const int64_t rows = limits_.rows;
  top_stride_ = std::min(models::kMaxTopLogprobs, limits_.vocab);
  DI_RETURN_IF_ERROR(Allocate(out::kSampled, rows, &outputs_, &sampled_));
  DI_RETURN_IF_ERROR(Allocate(out::kLogits, rows * limits_.vocab, &outputs_, &logits_));
  DI_RETURN_IF_ERROR(Allocate(out::kLogprob, rows, &outputs_, &logprob_));
  DI_RETURN_IF_ERROR(Allocate(out::kTopIds, rows * top_stride_, &outputs_, &top_ids_));
  return Allocate(out::kTopLogprobs, rows * top_stride_, &outputs_, &top_logprobs_);
}

void StepBuffers::Fill(const StepPlan& plan, const models::StepShape& shape) {
  live_counts_[0] = static_cast<int32_t>(plan.num_tokens());
  live_counts_[1] = static_cast<int32_t>(plan.rows.size());
  live_counts_[2] = static_cast<int32_t>(plan.num_requests());
  FillTokens(plan, shape);
  FillRequests(plan, shape);
  FillRows(plan, shape);
}

void StepBuffers::FillLate(const std::vector<LateRow>& rows) {
  for (const LateRow& late : rows) {
    FillMask(late.row, late.token_mask);
    FillAdjustments(late.row, late.adjustments);
  }
}

std::vector<std::string> StepBuffers::LateInputs() {
  namespace in = models::input;
  return {in::kHasMask, in::kTokenMask, in::kNumAdjustments, in::kAdjustIds, in::kBias, in::kRepetition, in::kPenalty};
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
    typical_p_[i] = row.typical_p;
    xtc_probability_[i] = row.xtc_probability;
    xtc_threshold_[i] = row.xtc_threshold;
    uniforms_[i] = row.uniform;
    xtc_uniforms_[i] = row.xtc_uniform;
    logprob_ids_[i] = row.logprob_id;
    want_logprobs_[i] = row.want_logprobs;
    FillMask(i, row.token_mask);
    FillAdjustments(i, row.adjustments);
  }
}

void StepBuffers::FillMask(int64_t row, const uint32_t* mask) {
  has_mask_[row] = mask != nullptr;
  const int64_t words = models::MaskWords(limits_.vocab);
  if (mask != nullptr) std::copy(mask, mask + words, token_mask_ + row * words);
}

void StepBuffers::FillAdjustments(int64_t row, const std::vector<Adjustment>* list) {
  num_adjustments_[row] = list == nullptr ? 0 : static_cast<int32_t>(list->size());
  if (list == nullptr) return;
  int64_t at = row * limits_.adjustments;
  for (const Adjustment& each : *list) {
    adjust_ids_[at] = each.id;
    bias_[at] = each.bias;
    repetition_[at] = each.repetition;
    penalty_[at] = each.penalty;
    ++at;
  }
}

}  // namespace deepinfer::runner
