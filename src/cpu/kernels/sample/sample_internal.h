// What the files of sample/ share: passes over blocks of a row of logits. Internal to sample/.
//
// A row is cut into blocks of kSampleBlock. Block maxima cost one pass and serve three ends: the row's maximum,
// skipping blocks in which nothing is kept, and a threshold under the k best: the k-th largest block maximum, since k
// blocks reach it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace deepinfer {

inline constexpr int64_t kSampleBlock = 128;

inline int64_t BlocksOf(int64_t vocabulary) {
  return (vocabulary + kSampleBlock - 1) / kSampleBlock;
}

// The kept ids: a stretch of the order by (logit descending, id ascending). Below it ends with logit == value and id ==
// last_id, above it begins with logit == top and id == first_id. The default keeps all above -inf.
struct Cut {
  float value = -__builtin_inff();
  int32_t last_id = -1;
  float top = __builtin_inff();
  int32_t first_id = 0;

  bool Keeps(float logit, int64_t id) const {
    return (logit > value || (logit == value && id <= last_id)) && (logit < top || (logit == top && id >= first_id));
  }
};

struct SampleSimd {
  const char* name;
  // maxima[b] = the largest logit of block b. False if there is a NaN.
  bool (*block_maxima)(const float* logits, int64_t vocabulary, float* maxima);
  // weights[i] = exp((logit - best) / temperature) of id first_id + i if kept, else 0, for i < kSampleBlock; their sum.
  float (*block_weights)(const float* logits, int64_t first_id, int64_t count, const Cut& cut, float best,
                         float temperature, float* weights);
};

struct Candidate {
  float logit;
  int32_t id;
};
inline bool Before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

struct TopLogprobsArgs;
void TopLogprobRows(const SampleSimd& simd, const TopLogprobsArgs& args, int64_t begin, int64_t end, void* scratch);

// One row with its block maxima, and the thread's scratch.
class LogitRow {
 public:
  LogitRow(const SampleSimd& simd, const float* logits, int64_t vocabulary, void* scratch);

  bool has_nan() const { return has_nan_; }
  float max() const { return max_; }
  int32_t Argmax() const;
  float Shifted(float logit) const { return logit == max_ ? 0 : logit - max_; }  // also where max is infinite
  // The best kept id, if cut.top is a kept logit.
  int32_t BestOf(const Cut& cut);
  // Sum of the kept ids' weights, those of the best kept being 1; keeps each block's for Draw.
  double SumWeights(const Cut& cut, float temperature);
  // The weighted mean of the kept ids' distance below the maximum (<= 0), at temperature 1.
  float MeanShifted(const Cut& cut);
  // The token of the draw; after SumWeights with the same arguments gave `total`.
  int32_t Draw(const Cut& cut, float temperature, float uniform, double total);
  // A value that at least `count` logits reach, as high as block maxima tell; -inf when they cannot.
  float ThresholdForBest(int64_t count);
  // Gathers kept ids with logit >= threshold into candidates(), ascending by id; returns how many.
  int64_t Collect(const Cut& cut, float threshold);

  // Strata: logits by their distance from `center` (0: the maximum; < 0: that far below it), 1/16 wide, the last one
  // open.
  static constexpr int kStrata = 512;
  static constexpr float kStrataPerUnit = 16;
  // The kept ids' weights at temperature 1 by stratum; returns their sum.
  double SumByStratum(const Cut& cut, float center, double* strata);
  // As Collect, but the kept ids of one stratum.
  int64_t CollectStratum(const Cut& cut, float center, int stratum);

  Candidate* candidates() { return candidates_; }

 private:
  template <class Select>
  int64_t CollectIf(const Cut& cut, float floor, Select select);
  int StratumOf(float logit, float center) const;
  float BestKept(const Cut& cut) const { return cut.top < max_ ? cut.top : max_; }
  int64_t CountOf(int64_t block) const;

  const SampleSimd& simd_;
  const float* logits_;
  int64_t vocabulary_;
  int64_t blocks_;
  double* block_sums_;
  Candidate* candidates_;
  float* maxima_;
  float* sorted_maxima_;
  float max_;
  bool has_nan_;
};

}  // namespace deepinfer
