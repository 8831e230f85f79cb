#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "cpu/kernels/sample/sample_internal.h"

namespace deepinfer {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

}  // namespace

LogitRow::LogitRow(const SampleSimd& simd, const float* logits, int64_t vocabulary, void* scratch)
    : simd_(simd), logits_(logits), vocabulary_(vocabulary), blocks_(BlocksOf(vocabulary)) {
  block_sums_ = static_cast<double*>(scratch);
  candidates_ = reinterpret_cast<Candidate*>(block_sums_ + blocks_);
  maxima_ = reinterpret_cast<float*>(candidates_ + vocabulary);
  sorted_maxima_ = maxima_ + blocks_;
  has_nan_ = !simd_.block_maxima(logits_, vocabulary_, maxima_);
  max_ = *std::max_element(maxima_, maxima_ + blocks_);
}

int64_t LogitRow::CountOf(int64_t block) const {
  return std::min(kSampleBlock, vocabulary_ - block * kSampleBlock);
}

int32_t LogitRow::Argmax() const {
  const int64_t block = std::find(maxima_, maxima_ + blocks_, max_) - maxima_;
  const float* first = logits_ + block * kSampleBlock;
  return static_cast<int32_t>(std::find(first, first + CountOf(block), max_) - logits_);
}

int32_t LogitRow::BestOf(const Cut& cut) {
  Collect(cut, BestKept(cut));
  return candidates_[0].id;
}

float LogitRow::MeanShifted(const Cut& cut) {
  double total = 0, sum = 0;
  float weights[kSampleBlock];
  for (int64_t block = 0; block < blocks_; ++block) {
    if (maxima_[block] < cut.value) continue;
    const int64_t first = block * kSampleBlock, count = CountOf(block);
    total += simd_.block_weights(logits_ + first, first, count, cut, max_, /*temperature=*/1, weights);
    for (int64_t i = 0; i < count; ++i) {
      if (weights[i] > 0) sum += double{weights[i]} * Shifted(logits_[first + i]);
    }
  }
  return static_cast<float>(sum / total);
}

double LogitRow::SumWeights(const Cut& cut, float temperature) {
  const float best = BestKept(cut);
  double total = 0;
  float weights[kSampleBlock];
  for (int64_t block = 0; block < blocks_; ++block) {
    float sum = 0;
    if (maxima_[block] >= cut.value) {
      const int64_t first = block * kSampleBlock;
      sum = simd_.block_weights(logits_ + first, first, CountOf(block), cut, best, temperature, weights);
    }
    block_sums_[block] = sum;
    total += sum;
  }
  return total;
}

int32_t LogitRow::Draw(const Cut& cut, float temperature, float uniform, double total) {
  const double target = uniform * total;
  // The first block that reaches the target; should none (a uniform of 1 or more), the last one that keeps anything.
  double before = 0, after = 0;
  int64_t chosen = 0;
  for (int64_t block = 0; block < blocks_; ++block) {
    if (block_sums_[block] <= 0) continue;
    chosen = block;
    before = after;
    after += block_sums_[block];
    if (after >= target) break;
  }
  float weights[kSampleBlock];
  const int64_t first = chosen * kSampleBlock;
  simd_.block_weights(logits_ + first, first, CountOf(chosen), cut, BestKept(cut), temperature, weights);
  int64_t last = 0;
  double running = before;
  for (int64_t i = 0; i < kSampleBlock; ++i) {
    if (weights[i] <= 0) continue;
    last = i;
    running += weights[i];
    if (running >= target) break;
  }
  return static_cast<int32_t>(first + last);
}

float LogitRow::ThresholdForBest(int64_t count) {
  if (count > blocks_) return kMinusInfinity;
  std::copy(maxima_, maxima_ + blocks_, sorted_maxima_);
  std::nth_element(sorted_maxima_, sorted_maxima_ + count - 1, sorted_maxima_ + blocks_, std::greater<float>());
  return sorted_maxima_[count - 1];
}

template <class Select>
int64_t LogitRow::CollectIf(const Cut& cut, float floor, Select select) {
  int64_t count = 0;
  for (int64_t block = 0; block < blocks_; ++block) {
    if (maxima_[block] < floor) continue;
    const int64_t first = block * kSampleBlock;
    for (int64_t id = first; id < first + CountOf(block); ++id) {
      const float logit = logits_[id];
      if (cut.Keeps(logit, id) && select(logit)) candidates_[count++] = {logit, static_cast<int32_t>(id)};
    }
  }
  return count;
}

int64_t LogitRow::Collect(const Cut& cut, float threshold) {
  return CollectIf(cut, std::max(cut.value, threshold), [threshold](float logit) { return logit >= threshold; });
}

int LogitRow::StratumOf(float logit, float center) const {
  const float depth = std::fabs(Shifted(logit) - center) * kStrataPerUnit;
  return depth < kStrata - 1 ? static_cast<int>(depth) : kStrata - 1;
}

double LogitRow::SumByStratum(const Cut& cut, float center, double* strata) {
  // Neighbours often share a stratum: two lists, so that their additions need not wait for each other.
  double odd[kStrata];
  std::fill(strata, strata + kStrata, 0.0);
  std::fill(odd, odd + kStrata, 0.0);
  float weights[kSampleBlock];
  for (int64_t block = 0; block < blocks_; ++block) {
    if (maxima_[block] < cut.value) continue;
    const int64_t first = block * kSampleBlock, count = CountOf(block);
    simd_.block_weights(logits_ + first, first, count, cut, max_, /*temperature=*/1, weights);
    for (int64_t i = 0; i + 1 < count; i += 2) {
      strata[StratumOf(logits_[first + i], center)] += weights[i];
      odd[StratumOf(logits_[first + i + 1], center)] += weights[i + 1];
    }
    if (count % 2 != 0) strata[StratumOf(logits_[first + count - 1], center)] += weights[count - 1];
  }
  double total = 0;
  for (int i = 0; i < kStrata; ++i) total += strata[i] += odd[i];
  return total;
}

int64_t LogitRow::CollectStratum(const Cut& cut, float center, int stratum) {
  // A stratum's lower end, and one stratum more for rounding, lets whole blocks be passed over.
  const float end = max_ + center - static_cast<float>(stratum + 2) / kStrataPerUnit;
  const float floor = stratum == kStrata - 1 ? cut.value : std::max(cut.value, end);
  return CollectIf(cut, floor, [this, center, stratum](float logit) { return StratumOf(logit, center) == stratum; });
}

}  // namespace deepinfer
