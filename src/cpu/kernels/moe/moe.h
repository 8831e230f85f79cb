// Mixture of experts, beside the products: which experts a token goes to, and the sum of what they give.
//
// Routing: probability_e = exp(l_e - max) / sum in f32, experts in ascending order; the most probable top_k,
// descending, ties to the lowest; normalised, their weights sum to 1. A token with a NaN among its logits has NaN
// weights. The exponential is base/fixed_math.h's, so the bits are equal on every machine. Sums: f32, in the order of
// the token's experts, one rounding. A token's bits depend on nothing else. Thread-safe; allocates nothing.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace deepinfer {

struct RouteArgs {
  const float* logits = nullptr;  // [tokens, experts]
  int64_t experts = 0;
  int64_t top_k = 0;
  bool normalise = false;
  int32_t* ids = nullptr;  // [tokens, top_k]
  float* weights = nullptr;
};
// scratch: `experts` floats.
void RouteTokens(const RouteArgs& args, int64_t begin, int64_t end, float* scratch);

// place[p] = where pair p lies if pairs are sorted by expert, stably; first[e] = the first place of expert e, and
// first[experts] = pairs.
void SortByExpert(const int32_t* ids, int64_t pairs, int64_t experts, int32_t* place, int32_t* first);

struct CombineArgs {
  const float* y = nullptr;        // [places, width]
  const int32_t* place = nullptr;  // [tokens, top_k]
  const float* weights = nullptr;
  int64_t top_k = 0;
  int64_t width = 0;
  void* out = nullptr;  // [tokens, width] of f32 or bf16
  DType dtype = DType::kF32;
};
void CombineExperts(const CombineArgs& args, int64_t begin, int64_t end);

}  // namespace deepinfer
