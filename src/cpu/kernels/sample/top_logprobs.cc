#include <algorithm>
#include <limits>

#include "base/fixed_math.h"
#include "cpu/kernels/sample/sample.h"
#include "cpu/kernels/sample/sample_internal.h"

namespace deepinfer {

void TopLogprobRows(const SampleSimd& simd, const TopLogprobsArgs& args, int64_t begin, int64_t end, void* scratch) {
  constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (int64_t r = begin; r < end; ++r) {
    if (args.want[r] < 0) continue;
    const float* logits = args.logits + r * args.logits_stride;
    int32_t* top_ids = args.top_ids + r * args.kmax;
    float* top_logprobs = args.top_logprobs + r * args.kmax;
    std::fill(top_ids, top_ids + args.kmax, -1);
    std::fill(top_logprobs, top_logprobs + args.kmax, kMinusInfinity);
    args.logprob[r] = kNan;

    LogitRow row(simd, logits, args.vocabulary, scratch);
    if (row.has_nan() || row.max() == kMinusInfinity) continue;
    const float log_sum = static_cast<float>(FixedLog(row.SumWeights(Cut{}, /*temperature=*/1)));
    const int32_t id = args.ids[r];
    if (id >= 0 && id < args.vocabulary) args.logprob[r] = row.Shifted(logits[id]) - log_sum;

    const int64_t want = std::min<int64_t>({args.want[r], args.kmax, args.vocabulary});
    if (want == 0) continue;
    const int64_t count = row.Collect(Cut{}, row.ThresholdForBest(want));
    const int64_t listed = std::min(want, count);
    Candidate* best = row.candidates();
    std::partial_sort(best, best + listed, best + count, Before);
    for (int64_t i = 0; i < listed; ++i) {
      top_ids[i] = best[i].id;
      top_logprobs[i] = row.Shifted(best[i].logit) - log_sum;
    }
  }
}

}  // namespace deepinfer
