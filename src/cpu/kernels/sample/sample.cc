#include "cpu/kernels/sample/sample.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "base/fixed_math.h"
#include "cpu/kernels/pick_isa.h"
#include "cpu/kernels/sample/sample_internal.h"

namespace deepinfer {

DI_DECLARE_FIXED_TABLE(SampleSimd, kSample);

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

int64_t BlocksOf(int64_t vocabulary) {
  return (vocabulary + kSampleBlock - 1) / kSampleBlock;
}

double ProbabilityWeight(const LogitRow& row, const Candidate& c) {
  return FixedExp(row.Shifted(c.logit));
}

// Of the candidates, keeps the shortest prefix in order that reaches `wanted`, without sorting them: halves the part in
// which the cut lies until it is small. Returns the last kept candidate.
Candidate CutByMass(const LogitRow& row, Candidate* candidates, int64_t count, double wanted) {
  constexpr int64_t kSortBelow = 32;
  int64_t begin = 0, end = count;
  double before = 0;
  while (end - begin > kSortBelow) {
    const int64_t middle = begin + (end - begin) / 2;
    std::nth_element(candidates + begin, candidates + middle, candidates + end, Before);
    double mass = 0;
    for (int64_t i = begin; i < middle; ++i) mass += ProbabilityWeight(row, candidates[i]);
    // candidates[middle] is kept iff what stands before it is still short; then the cut is at it or after it.
    if (before + mass < wanted) {
      before += mass;
      begin = middle;
    } else {
      end = middle;
    }
  }
  std::sort(candidates + begin, candidates + end, Before);
  int64_t last = begin;
  before += ProbabilityWeight(row, candidates[begin]);
  while (last + 1 < end && before < wanted) before += ProbabilityWeight(row, candidates[++last]);
  return candidates[last];
}

// Narrows `cut` to top_p of what it keeps, when no list of candidates is at hand: only the stratum of logits in which
// the cumulative probability passes top_p is looked at one by one.
Cut CutTopP(LogitRow& row, const Cut& cut, float top_p) {
  double strata[LogitRow::kStrata];
  const double wanted = top_p * row.SumByStratum(cut, strata);
  double before = 0;
  for (int stratum = 0; stratum < LogitRow::kStrata; ++stratum) {
    if (strata[stratum] > 0 && before + strata[stratum] >= wanted) {
      const int64_t count = row.CollectStratum(cut, stratum);
      const Candidate last = CutByMass(row, row.candidates(), count, wanted - before);
      return {last.logit, last.id};
    }
    before += strata[stratum];
  }
  return cut;
}

Cut FindCut(LogitRow& row, int64_t vocabulary, float min_p, int32_t top_k, float top_p) {
  Cut cut;
  if (min_p > 0) {
    const float threshold = std::min(row.max() + static_cast<float>(FixedLog(min_p)), row.max());
    if (threshold > kMinusInfinity) cut = {threshold, std::numeric_limits<int32_t>::max()};
  }
  const bool use_top_p = top_p < 1;
  if (top_k <= 0 || top_k >= vocabulary) return use_top_p ? CutTopP(row, cut, top_p) : cut;

  int64_t count = row.Collect(cut, row.ThresholdForBest(top_k));
  Candidate* candidates = row.candidates();
  if (count >= top_k) {
    std::nth_element(candidates, candidates + top_k - 1, candidates + count, Before);
    count = top_k;
    cut = {candidates[count - 1].logit, candidates[count - 1].id};
  }
  if (!use_top_p) return cut;
  double total = 0;
  for (int64_t i = 0; i < count; ++i) total += ProbabilityWeight(row, candidates[i]);
  const Candidate last = CutByMass(row, candidates, count, top_p * total);
  return {last.logit, last.id};
}

void SampleRows(const SampleSimd& simd, const SampleArgs& args, int64_t begin, int64_t end, void* scratch) {
  for (int64_t r = begin; r < end; ++r) {
    LogitRow row(simd, args.logits + r * args.logits_stride, args.vocabulary, scratch);
    if (row.has_nan()) {
      args.ids[r] = -1;
      continue;
    }
    const float temperature = args.temperature[r];
    if (!(temperature > 0)) {
      args.ids[r] = row.Argmax();
      continue;
    }
    if (row.max() == kMinusInfinity) {
      args.ids[r] = -1;
      continue;
    }
    const Cut cut = FindCut(row, args.vocabulary, args.min_p[r], args.top_k[r], args.top_p[r]);
    const double total = row.SumWeights(cut, temperature);
    args.ids[r] = row.Draw(cut, temperature, args.uniforms[r], total);
  }
}

}  // namespace

size_t SampleScratchBytes(int64_t vocabulary) {
  const size_t blocks = static_cast<size_t>(BlocksOf(vocabulary));
  const size_t bytes = blocks * (sizeof(double) + 2 * sizeof(float)) + vocabulary * sizeof(Candidate);
  return (bytes + 63) / 64 * 64;
}

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

double LogitRow::SumWeights(const Cut& cut, float temperature) {
  double total = 0;
  float weights[kSampleBlock];
  for (int64_t block = 0; block < blocks_; ++block) {
    float sum = 0;
    if (maxima_[block] >= cut.value) {
      const int64_t first = block * kSampleBlock;
      sum = simd_.block_weights(logits_ + first, first, CountOf(block), cut, max_, temperature, weights);
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
  simd_.block_weights(logits_ + first, first, CountOf(chosen), cut, max_, temperature, weights);
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
      const bool kept = logit > cut.value || (logit == cut.value && id <= cut.last_id);
      if (kept && select(logit)) candidates_[count++] = {logit, static_cast<int32_t>(id)};
    }
  }
  return count;
}

int64_t LogitRow::Collect(const Cut& cut, float threshold) {
  return CollectIf(cut, std::max(cut.value, threshold), [threshold](float logit) { return logit >= threshold; });
}

int LogitRow::StratumOf(float logit) const {
  const float depth = -Shifted(logit) * kStrataPerUnit;
  return depth < kStrata - 1 ? static_cast<int>(depth) : kStrata - 1;
}

double LogitRow::SumByStratum(const Cut& cut, double* strata) {
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
      strata[StratumOf(logits_[first + i])] += weights[i];
      odd[StratumOf(logits_[first + i + 1])] += weights[i + 1];
    }
    if (count % 2 != 0) strata[StratumOf(logits_[first + count - 1])] += weights[count - 1];
  }
  double total = 0;
  for (int i = 0; i < kStrata; ++i) total += strata[i] += odd[i];
  return total;
}

int64_t LogitRow::CollectStratum(const Cut& cut, int stratum) {
  // A stratum's lower end, and one stratum more for rounding, lets whole blocks be passed over.
  const float end = max_ - static_cast<float>(stratum + 2) / kStrataPerUnit;
  const float floor = stratum == kStrata - 1 ? cut.value : std::max(cut.value, end);
  return CollectIf(cut, floor, [this, stratum](float logit) { return StratumOf(logit) == stratum; });
}

namespace {

template <const SampleSimd& simd>
void Sample(const SampleArgs& args, int64_t begin, int64_t end, void* scratch) {
  SampleRows(simd, args, begin, end, scratch);
}

template <const SampleSimd& simd>
void TopLogprobs(const TopLogprobsArgs& args, int64_t begin, int64_t end, void* scratch) {
  TopLogprobRows(simd, args, begin, end, scratch);
}

// The name comes with the table, which lives in an object of its own, so these are filled in at first use.
template <const SampleSimd& simd>
const SampleKernels* KernelsOf() {
  static const SampleKernels kernels = {simd.name, Sample<simd>, TopLogprobs<simd>};
  return &kernels;
}

}  // namespace

const SampleKernels* ChooseSample(Isa isa, Numerics numerics) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return KernelsOf<kSampleAvx512>();
  if (isa >= Isa::kAvx2) {
    return numerics == Numerics::kPortable ? KernelsOf<kSampleAvx2Fixed>() : KernelsOf<kSampleAvx2>();
  }
#endif
  static_cast<void>(isa);
  if (numerics == Numerics::kPortable) return KernelsOf<kSamplePortableFixed>();
  return KernelsOf<kSamplePortable>();
}

}  // namespace deepinfer
