// Choosing the next token of each row of logits, and log probabilities beside it.
//
// sample, for a row of `vocabulary` f32 logits:
//   any NaN -> -1. temperature <= 0 -> the largest logit, ties to the lowest id. Otherwise, with M the largest logit,
//   the kept ids are those with logit > -inf, then: min_p > 0: logit >= M + log(min_p); top_k > 0: the k best by (logit
//   descending, id ascending); top_p < 1: in that order, those before which the cumulative probability (at temperature
//   1, over the kept) is < top_p, at least one. The weight of a kept id is exp((logit - M) / temperature); the token is
//   the first kept id, ascending, whose running sum is positive and >= uniform * total; the last kept if none is.
//   No id kept (every logit -inf) -> -1. Running sums are in double over f32 weights.
// top_logprobs: logit - logsumexp of the row; see TopLogprobsArgs.
// A row costs one pass over the logits when greedy, two when sampled; top_k and top_p add work on a few survivors,
// never a sort of the vocabulary. The caller splits rows [begin, end) as it likes, with scratch of its own for each
// thread. Thread-safe; allocates nothing. Sources: Fan et al. 2018 (top-k), Holtzman et al. 2020 (top-p), Nguyen et al.
// 2024 (min-p).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/numerics.h"

namespace deepinfer {

enum class Isa : int;

// Scratch of one thread, 64-byte aligned, for sample and top_logprobs.
size_t SampleScratchBytes(int64_t vocabulary);

struct SampleArgs {
  const float* logits = nullptr;  // [rows, vocabulary]
  int64_t logits_stride = 0;
  int64_t vocabulary = 0;
  const float* temperature = nullptr;  // [rows], as are those below
  const int32_t* top_k = nullptr;
  const float* top_p = nullptr;
  const float* min_p = nullptr;
  const float* uniforms = nullptr;
  int32_t* ids = nullptr;
};

struct TopLogprobsArgs {
  const float* logits = nullptr;  // [rows, vocabulary]
  int64_t logits_stride = 0;
  int64_t vocabulary = 0;
  const int32_t* ids = nullptr;   // [rows]; an id outside the vocabulary gets NaN
  const int32_t* want = nullptr;  // [rows]; < 0: the row's outputs stay untouched; 0: only logprob
  int64_t kmax = 0;
  float* logprob = nullptr;       // [rows]
  int32_t* top_ids = nullptr;     // [rows, kmax], best first, ties to the lowest id; unused: -1
  float* top_logprobs = nullptr;  // [rows, kmax]; unused: -inf. A logit of -inf is never listed.
};

struct SampleKernels {
  const char* name;  // "sample_f32_Avx512"
  void (*sample)(const SampleArgs& args, int64_t begin, int64_t end, void* scratch);
  void (*top_logprobs)(const TopLogprobsArgs& args, int64_t begin, int64_t end, void* scratch);
};

const SampleKernels* ChooseSample(Isa isa, Numerics numerics = Numerics::kNative);

}  // namespace deepinfer
