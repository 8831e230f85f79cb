#include "cpu/kernels/sample/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/fixed_math.h"
#include "cpu/kernels/pick_isa.h"
#include "cpu/kernels/sample/sample_internal.h"

namespace deepinfer {

DI_DECLARE_FIXED_TABLE(SampleSimd, kSample);

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// The logits to sample from: the row itself, or a copy with its adjustments and its mask. False if there is a NaN.
bool Adjust(const SampleArgs& args, int64_t r, float* copy, const float** logits) {
  const float* raw = args.logits + r * args.logits_stride;
  const int64_t entries = std::clamp<int64_t>(args.num_adjustments[r], 0, args.places);
  *logits = raw;
  if (entries == 0 && args.has_mask[r] == 0) return true;
  bool nan = false;
  for (int64_t i = 0; i < args.vocabulary; ++i) {
    nan |= raw[i] != raw[i];
    copy[i] = raw[i];
  }
  for (int64_t i = r * args.places; i < r * args.places + entries; ++i) {
    const int32_t id = args.adjust_ids[i];
    if (id < 0 || id >= args.vocabulary) continue;
    const float biased = copy[id] + args.bias[i];
    copy[id] = (biased > 0 ? biased / args.repetition[i] : biased * args.repetition[i]) - args.penalty[i];
  }
  if (args.has_mask[r] != 0) {
    const int32_t* words = args.token_mask + r * ((args.vocabulary + 31) / 32);
    for (int64_t i = 0; i < args.vocabulary; ++i) {
      if ((words[i / 32] >> (i % 32) & 1) == 0) copy[i] = kMinusInfinity;
    }
  }
  *logits = copy;
  return !nan;
}

double ProbabilityWeight(const LogitRow& row, const Candidate& c) {
  return FixedExp(row.Shifted(c.logit));
}

// Of the candidates, keeps the shortest prefix in the order of `before_than` that reaches `wanted`, without sorting
// them: halves the part in which the cut lies until it is small. Returns the last kept candidate.
template <class Less>
Candidate CutByMass(const LogitRow& row, Candidate* candidates, int64_t count, double wanted, Less before_than) {
  constexpr int64_t kSortBelow = 32;
  int64_t begin = 0, end = count;
  double before = 0;
  while (end - begin > kSortBelow) {
    const int64_t middle = begin + (end - begin) / 2;
    std::nth_element(candidates + begin, candidates + middle, candidates + end, before_than);
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
  std::sort(candidates + begin, candidates + end, before_than);
  int64_t last = begin;
  before += ProbabilityWeight(row, candidates[begin]);
  while (last + 1 < end && before < wanted) before += ProbabilityWeight(row, candidates[++last]);
  return candidates[last];
}

// The candidate, in order of the distance from `center`, at which the kept ids' cumulative probability reaches `part`:
// only the stratum in which it does is looked at one by one. False if that is all of them.
template <class Less>
bool FindReaching(LogitRow& row, const Cut& cut, float center, float part, Less before_than, Candidate* last) {
  double strata[LogitRow::kStrata];
  const double wanted = part * row.SumByStratum(cut, center, strata);
  double before = 0;
  for (int stratum = 0; stratum < LogitRow::kStrata; ++stratum) {
    if (strata[stratum] > 0 && before + strata[stratum] >= wanted) {
      const int64_t count = row.CollectStratum(cut, center, stratum);
      *last = CutByMass(row, row.candidates(), count, wanted - before, before_than);
      return true;
    }
    before += strata[stratum];
  }
  return false;
}

Cut CutTypical(LogitRow& row, const Cut& cut, float typical_p) {
  const float mean = row.MeanShifted(cut);
  const auto distance = [&row, mean](float logit) { return std::fabs(row.Shifted(logit) - mean); };
  const auto nearer = [&distance](const Candidate& a, const Candidate& b) {
    return distance(a.logit) < distance(b.logit);
  };
  Candidate last;
  if (!FindReaching(row, cut, mean, typical_p, nearer, &last)) return cut;
  const float farthest = distance(last.logit);
  float lowest = row.max(), highest = kMinusInfinity;
  const int64_t count = row.Collect(cut, kMinusInfinity);
  for (int64_t i = 0; i < count; ++i) {
    const float logit = row.candidates()[i].logit;
    if (distance(logit) > farthest) continue;
    lowest = std::min(lowest, logit);
    highest = std::max(highest, logit);
  }
  Cut narrow = cut;
  if (lowest > cut.value) narrow = {lowest, std::numeric_limits<int32_t>::max()};
  narrow.top = highest;
  return narrow;
}

// What xtc takes away is at the top: the stretch begins with the least likely of the likely ones.
Cut CutXtc(LogitRow& row, const Cut& cut, float threshold) {
  const double best = row.Shifted(std::min(row.max(), cut.top));
  const double wanted = threshold * row.SumWeights(cut, /*temperature=*/1) * FixedExp(best);
  const float floor = row.max() + static_cast<float>(FixedLog(wanted)) - 1.0f / 16;
  const int64_t count = row.Collect(cut, floor);
  Candidate last = {kMinusInfinity, -1};
  for (int64_t i = 0; i < count; ++i) {
    const Candidate& c = row.candidates()[i];
    const bool likely = static_cast<float>(ProbabilityWeight(row, c)) >= static_cast<float>(wanted);
    if (likely && (last.id < 0 || Before(last, c))) last = c;
  }
  Cut narrow = cut;
  if (last.id >= 0) {
    narrow.top = last.logit;
    narrow.first_id = last.id;
  }
  return narrow;
}

// min_p and top_k; top_p as well where it follows at once, since its candidates are at hand.
Cut CutBest(LogitRow& row, int64_t vocabulary, float min_p, int32_t top_k, float* top_p) {
  Cut cut;
  if (min_p > 0) {
    const float threshold = std::min(row.max() + static_cast<float>(FixedLog(min_p)), row.max());
    if (threshold > kMinusInfinity) cut = {threshold, std::numeric_limits<int32_t>::max()};
  }
  if (top_k <= 0 || top_k >= vocabulary) return cut;
  int64_t count = row.Collect(cut, row.ThresholdForBest(top_k));
  Candidate* candidates = row.candidates();
  if (count >= top_k) {
    std::nth_element(candidates, candidates + top_k - 1, candidates + count, Before);
    count = top_k;
    cut = {candidates[count - 1].logit, candidates[count - 1].id};
  }
  if (*top_p >= 1) return cut;
  double total = 0;
  for (int64_t i = 0; i < count; ++i) total += ProbabilityWeight(row, candidates[i]);
  const Candidate last = CutByMass(row, candidates, count, *top_p * total, Before);
  *top_p = 1;
  return {last.logit, last.id};
}

Cut FindCut(LogitRow& row, const SampleArgs& args, int64_t r) {
  const float typical_p = args.typical_p[r];
  float top_p = args.top_p[r], none = 1;
  Cut cut = CutBest(row, args.vocabulary, args.min_p[r], args.top_k[r], typical_p < 1 ? &none : &top_p);
  if (typical_p < 1) cut = CutTypical(row, cut, typical_p);
  if (Candidate last; top_p < 1 && FindReaching(row, cut, /*center=*/0, top_p, Before, &last)) {
    cut.value = last.logit;
    cut.last_id = last.id;
  }
  if (args.xtc_uniforms[r] < args.xtc_probability[r]) cut = CutXtc(row, cut, args.xtc_threshold[r]);
  return cut;
}

int32_t SampleRow(const SampleSimd& simd, const SampleArgs& args, int64_t r, float* copy, void* scratch) {
  const float* logits;
  if (!Adjust(args, r, copy, &logits)) return -1;
  LogitRow row(simd, logits, args.vocabulary, scratch);
  if (row.has_nan() || row.max() == kMinusInfinity) return -1;
  const float temperature = args.temperature[r];
  const bool greedy = !(temperature > 0);
  const bool best_may_go = args.typical_p[r] < 1 || args.xtc_uniforms[r] < args.xtc_probability[r];
  if (greedy && !best_may_go) return row.Argmax();
  const Cut cut = FindCut(row, args, r);
  if (greedy) return row.BestOf(cut);
  const double total = row.SumWeights(cut, temperature);
  return row.Draw(cut, temperature, args.uniforms[r], total);
}

size_t RoundUp64(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

void SampleRows(const SampleSimd& simd, const SampleArgs& args, int64_t begin, int64_t end, void* scratch) {
  auto* copy = static_cast<float*>(scratch);
  void* rest = static_cast<char*>(scratch) + RoundUp64(static_cast<size_t>(args.vocabulary) * sizeof(float));
  for (int64_t r = begin; r < end; ++r) args.ids[r] = SampleRow(simd, args, r, copy, rest);
}

}  // namespace

size_t SampleScratchBytes(int64_t vocabulary) {
  const size_t blocks = static_cast<size_t>(BlocksOf(vocabulary));
  const size_t bytes = blocks * (sizeof(double) + 2 * sizeof(float)) + vocabulary * sizeof(Candidate);
  return RoundUp64(bytes) + RoundUp64(static_cast<size_t>(vocabulary) * sizeof(float));
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
