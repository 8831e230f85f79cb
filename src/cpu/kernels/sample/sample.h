// Choosing the next token of each row of logits, and log probabilities beside it.
//
// sample is the composite of ir/sampling.h, which says what each parameter does and in which order. Running sums are in
// double over f32 weights; the running sum that draws is positive, and without one that reaches the target the last
// kept id is drawn. top_logprobs: logit - logsumexp of the row; see TopLogprobsArgs. A row costs one pass over the
// logits when greedy, two when sampled; what filters leave is a stretch of the order by (logit descending, id
// ascending), found without sorting the vocabulary: top_k and top_p add work on a few survivors, typical_p three
// passes, xtc one. A mask or adjustments cost one pass that copies the row; without them it is read where it lies. The
// caller splits rows [begin, end) as it likes, with scratch of its own for each thread. Thread-safe; allocates nothing.
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
  const float* typical_p = nullptr;
  const float* xtc_probability = nullptr;
  const float* xtc_threshold = nullptr;
  const float* uniforms = nullptr;
  const float* xtc_uniforms = nullptr;
  const int32_t* has_mask = nullptr;
  const int32_t* token_mask = nullptr;  // [rows, ceil(vocabulary / 32)]
  const int32_t* num_adjustments = nullptr;
  int64_t places = 0;
  const int32_t* adjust_ids = nullptr;  // [rows, places], as are those below; ids outside the vocabulary are ignored
  const float* bias = nullptr;
  const float* repetition = nullptr;
  const float* penalty = nullptr;
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
