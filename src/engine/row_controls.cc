#include "engine/row_controls.h"

#include <algorithm>

#include "engine/philox.h"

namespace deepinfer::engine {
namespace {

void Set(std::vector<uint32_t>* mask, int32_t id) {
  (*mask)[static_cast<size_t>(id / 32)] |= uint32_t{1} << (id % 32);
}

bool Has(const std::vector<uint32_t>& mask, int32_t id) {
  return (mask[static_cast<size_t>(id / 32)] >> (id % 32) & 1) != 0;
}

void Clear(uint32_t* mask, int32_t id) {
  mask[id / 32] &= ~(uint32_t{1} << (id % 32));
}

bool AnyIn(const std::vector<uint32_t>& mask) {
  return std::any_of(mask.begin(), mask.end(), [](uint32_t word) { return word != 0; });
}

std::vector<uint32_t> AllOf(int64_t vocab) {
  std::vector<uint32_t> mask(static_cast<size_t>(models::MaskWords(vocab)), ~uint32_t{0});
  if (vocab % 32 != 0) mask.back() = (uint32_t{1} << (vocab % 32)) - 1;
  return mask;
}

bool Counts(const SamplingParams& p) {
  return p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0;
}

}  // namespace

RowControls::RowControls(const GenerationRequest& request, int64_t vocab, int64_t max_total)
    : params_(request.params),
      vocab_(vocab),
      stop_ids_(request.stop_ids),
      bad_words_(request.params.bad_words),
      dry_(request.params, max_total) {
  std::erase_if(stop_ids_, [vocab](int32_t id) { return id < 0 || id >= vocab; });
  stops_offered_.reserve(stop_ids_.size());
  InitMask(request);
  InitAdjustments(request, max_total);
}

Result<std::unique_ptr<RowControls>> RowControls::Create(const GenerationRequest& request, int64_t vocab,
                                                         int64_t max_total) {
  std::unique_ptr<RowControls> controls(new RowControls(request, vocab, max_total));
  if (request.grammar != nullptr) {
    DI_ASSIGN_OR_RETURN(controls->constraint_, request.grammar->Start());
  }
  DI_RETURN_IF_ERROR(controls->UpdateMask({}));
  controls->UpdateDry(request.prompt);
  return controls;
}

void RowControls::InitMask(const GenerationRequest& request) {
  const std::set<int32_t> banned = TokensBannedAlways(params_);
  if (!params_.allowed_ids.empty()) {
    fixed_.assign(static_cast<size_t>(models::MaskWords(vocab_)), 0);
    for (const int32_t id : params_.allowed_ids) Set(&fixed_, id);
  } else if (!banned.empty()) {
    fixed_ = AllOf(vocab_);
  }
  for (const int32_t id : banned) Clear(fixed_.data(), id);
  const bool changes = !bad_words_.empty() || params_.min_tokens > 0 || request.grammar != nullptr;
  if (!fixed_.empty() || changes) mask_ = AllOf(vocab_);
}

void RowControls::InitAdjustments(const GenerationRequest& request, int64_t max_total) {
  const bool grows = Counts(params_) || dry_.enabled();
  const auto fixed = static_cast<int64_t>(params_.logit_bias.size());
  const auto most = static_cast<size_t>(grows ? std::min(vocab_, max_total + fixed) : fixed);
  adjustments_.reserve(most);
  if (grows) {
    places_.assign(static_cast<size_t>(vocab_), -1);
    output_counts_.reserve(most);
    dry_penalties_.reserve(most);
    dry_places_.reserve(most);
  }
  for (const LogitBias& entry : params_.logit_bias) {
    if (!grows) {
      adjustments_.push_back({entry.id, static_cast<float>(entry.bias)});
    } else {
      adjustments_[PlaceOf(entry.id)].bias = static_cast<float>(entry.bias);
    }
  }
  if (params_.repetition_penalty != 1) CountPrompt(request);
}

void RowControls::CountPrompt(const GenerationRequest& request) {
  for (const int32_t id : request.prompt) {
    adjustments_[PlaceOf(id)].repetition = static_cast<float>(params_.repetition_penalty);
  }
}

size_t RowControls::PlaceOf(int32_t id) {
  int32_t& place = places_[static_cast<size_t>(id)];
  if (place < 0) {
    place = static_cast<int32_t>(adjustments_.size());
    adjustments_.push_back({id});
    output_counts_.push_back(0);
    dry_penalties_.push_back(0);
  }
  return static_cast<size_t>(place);
}

void RowControls::UpdatePenalty(size_t place) {
  const int32_t count = output_counts_[place];
  const double counted = count == 0 ? 0 : params_.presence_penalty + params_.frequency_penalty * count;
  adjustments_[place].penalty = static_cast<float>(counted) + dry_penalties_[place];
}

void RowControls::CountOutput(int32_t token) {
  const size_t place = PlaceOf(token);
  ++output_counts_[place];
  adjustments_[place].repetition = static_cast<float>(params_.repetition_penalty);
  UpdatePenalty(place);
}

void RowControls::UpdateDry(std::span<const int32_t> tokens) {
  if (!dry_.enabled()) return;
  for (const size_t place : dry_places_) {
    dry_penalties_[place] = 0;
    UpdatePenalty(place);
  }
  dry_places_.clear();
  for (const Dry::Penalty& found : dry_.Find(tokens)) {
    const size_t place = PlaceOf(found.id);
    if (dry_penalties_[place] == 0) dry_places_.push_back(place);
    dry_penalties_[place] = std::max(dry_penalties_[place], found.value);
    UpdatePenalty(place);
  }
}

// Where a grammar has nothing else to offer, the end of the text comes before min_tokens.
void RowControls::BanStops() {
  stops_offered_.clear();
  for (const int32_t id : stop_ids_) {
    if (Has(mask_, id)) stops_offered_.push_back(id);
    Clear(mask_.data(), id);
  }
  if (constraint_ == nullptr || AnyIn(mask_)) return;
  for (const int32_t id : stops_offered_) Set(&mask_, id);
}

Status RowControls::UpdateMask(std::span<const int32_t> output) {
  const bool too_early = generated_ < params_.min_tokens;
  const std::span<const int32_t> word_ends = bad_words_.Find(output);
  masked_ = constraint_ != nullptr || !fixed_.empty() || too_early || !word_ends.empty();
  if (!masked_) return {};
  if (constraint_ != nullptr) {
    DI_RETURN_IF_ERROR(constraint_->ComputeMask(mask_.data(), static_cast<int64_t>(mask_.size())));
  } else {
    std::fill(mask_.begin(), mask_.end(), ~uint32_t{0});
    if (vocab_ % 32 != 0) mask_.back() = (uint32_t{1} << (vocab_ % 32)) - 1;
  }
  for (size_t i = 0; i < fixed_.size(); ++i) mask_[i] &= fixed_[i];
  if (too_early) BanStops();
  for (const int32_t id : word_ends) Clear(mask_.data(), id);
  if (AnyIn(mask_)) return {};
  const char* last_straw = constraint_ != nullptr ? "grammar" : word_ends.empty() ? "min_tokens" : "bad_words";
  return MakeError(ErrorCode::kInvalidArgument, last_straw, "after {} tokens nothing may follow: every token is banned",
                   generated_);
}

Status RowControls::Accept(std::span<const int32_t> tokens) {
  const int32_t token = tokens.back();
  ++generated_;
  if (Counts(params_)) CountOutput(token);
  UpdateDry(tokens);
  if (constraint_ != nullptr) {
    DI_RETURN_IF_ERROR(constraint_->Accept(token));
    finished_ = constraint_->IsFinished();
  }
  // Without a grammar and bad words a mask changes once, when min_tokens are there.
  const bool changes = constraint_ != nullptr || !bad_words_.empty() || generated_ == params_.min_tokens;
  return changes && !finished_ ? UpdateMask(tokens.last(static_cast<size_t>(generated_))) : Status();
}

void RowControls::FillRow(uint32_t choice, int64_t position, runner::PlannedRow* row) const {
  const SamplingParams& p = params_;
  row->temperature = p.top_p == 0 ? 0.0f : static_cast<float>(p.temperature);
  row->top_k = p.top_k;
  row->top_p = static_cast<float>(p.top_p);
  row->min_p = static_cast<float>(p.min_p);
  row->typical_p = static_cast<float>(p.typical_p);
  row->xtc_probability = static_cast<float>(p.xtc_probability);
  row->xtc_threshold = static_cast<float>(p.xtc_threshold);
  row->want_logprobs = p.logprobs;
  row->token_mask = token_mask();
  row->adjustments = adjustments();
  if (row->temperature > 0 || p.xtc_probability > 0) {
    row->uniform = Uniform(p.seed, p.choice + choice, static_cast<uint64_t>(position), Draw::kToken);
    row->xtc_uniform = Uniform(p.seed, p.choice + choice, static_cast<uint64_t>(position), Draw::kXtc);
  }
}

}  // namespace deepinfer::engine
