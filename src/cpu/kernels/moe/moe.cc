#include "cpu/kernels/moe/moe.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/fixed_math.h"
#include "base/half.h"

namespace deepinfer {
namespace {

// Keeps `ids` and `weights` descending; an equal probability comes after those that are there.
void Insert(int32_t id, float probability, int64_t count, int64_t top_k, int32_t* ids, float* weights) {
  int64_t at = std::min(count, top_k);
  if (at == top_k && !(probability > weights[top_k - 1])) return;
  at = std::min(at, top_k - 1);
  for (; at > 0 && probability > weights[at - 1]; --at) {
    ids[at] = ids[at - 1];
    weights[at] = weights[at - 1];
  }
  ids[at] = id;
  weights[at] = probability;
}

void RouteToken(const RouteArgs& args, int64_t token, float* exponentials) {
  const float* logits = args.logits + token * args.experts;
  int32_t* ids = args.ids + token * args.top_k;
  float* weights = args.weights + token * args.top_k;
  float max = logits[0];
  for (int64_t e = 1; e < args.experts; ++e) max = std::max(max, logits[e]);
  float sum = 0;
  for (int64_t e = 0; e < args.experts; ++e) {
    exponentials[e] = static_cast<float>(FixedExp(logits[e] - max));
    sum += exponentials[e];
  }
  if (!std::isfinite(sum)) {
    for (int64_t k = 0; k < args.top_k; ++k) {
      ids[k] = static_cast<int32_t>(k);
      weights[k] = std::numeric_limits<float>::quiet_NaN();
    }
    return;
  }
  for (int64_t e = 0; e < args.experts; ++e) {
    Insert(static_cast<int32_t>(e), exponentials[e] / sum, e, args.top_k, ids, weights);
  }
  if (!args.normalise) return;
  float chosen = 0;
  for (int64_t k = 0; k < args.top_k; ++k) chosen += weights[k];
  for (int64_t k = 0; k < args.top_k; ++k) weights[k] /= chosen;
}

}  // namespace

void RouteTokens(const RouteArgs& args, int64_t begin, int64_t end, float* scratch) {
  for (int64_t token = begin; token < end; ++token) RouteToken(args, token, scratch);
}

void SortByExpert(const int32_t* ids, int64_t pairs, int64_t experts, int32_t* place, int32_t* first) {
  std::fill(first, first + experts + 1, 0);
  for (int64_t pair = 0; pair < pairs; ++pair) ++first[ids[pair] + 1];
  for (int64_t e = 0; e < experts; ++e) first[e + 1] += first[e];
  for (int64_t pair = 0; pair < pairs; ++pair) place[pair] = first[ids[pair]]++;
  for (int64_t e = experts; e > 0; --e) first[e] = first[e - 1];
  first[0] = 0;
}

void CombineExperts(const CombineArgs& args, int64_t begin, int64_t end) {
  constexpr int64_t kColumns = 64;
  for (int64_t token = begin; token < end; ++token) {
    const int32_t* place = args.place + token * args.top_k;
    const float* weights = args.weights + token * args.top_k;
    for (int64_t column = 0; column < args.width; column += kColumns) {
      const int64_t count = std::min(kColumns, args.width - column);
      float sums[kColumns] = {};
      for (int64_t k = 0; k < args.top_k; ++k) {
        const float* y = args.y + place[k] * args.width + column;
        for (int64_t i = 0; i < count; ++i) sums[i] += weights[k] * y[i];
      }
      const int64_t at = token * args.width + column;
      for (int64_t i = 0; i < count; ++i) {
        if (args.dtype == DType::kF32) {
          static_cast<float*>(args.out)[at + i] = sums[i];
        } else {
          static_cast<uint16_t*>(args.out)[at + i] = F32ToBF16(sums[i]);
        }
      }
    }
  }
}

}  // namespace deepinfer
