// The operands of `sample`, and in which order its parts apply.
//
// Rows are independent. For a row of logits, in this order:
//   1. A NaN anywhere gives -1.
//   2. Adjustments, for each id of the row's list: l + bias; then l / r if that is positive, else l * r (repetition);
//      then l - penalty (presence, frequency, DRY). The list's ids are distinct.
//   3. The token mask, if the row has one: what it does not allow becomes -inf. A row with nothing left gives -1.
//   4. Filters, each on what the one before left, by probabilities at temperature 1 of what is left:
//      min_p      logits of at least max + log(min_p)
//      top_k      the k best by (logit descending, id ascending)
//      typical_p  those whose logit is nearest to the expected logit, the distance up to which their mass reaches
//                 typical_p; all at that distance stay
//      top_p      the fewest of the best that reach top_p, at least one
//      xtc        if the second uniform is below xtc_probability: of those with a probability of at least
//                 xtc_threshold all but the last (in the order of top_k) go
//   5. Temperature: <= 0 takes the best of what is left, ties to the lowest id. Else the token is the first one left,
//      by id, whose running sum of exp((l - best left) / T) reaches uniform * total.
//
// Where others do it differently: bias, then penalties, then filters is the order of vLLM and llama.cpp alike; filters
// before the temperature is llama.cpp's (vLLM divides by the temperature first), and so the set of candidates does not
// depend on the temperature; min_p first, then top_k and top_p is vLLM's. With typical_p or xtc the best of what is
// left need not be the best of all: T = 0 agrees with T -> 0.
// Sources: Fan et al. 2018 (top-k), Keskar et al. 2019 (repetition penalty), Holtzman et al. 2020 (top-p), Meister et
// al. 2023 (typical), Nguyen et al. 2024 (min-p); XTC and DRY as their author wrote them for text-generation-webui.
#pragma once

#include <cstddef>

namespace deepinfer::ir {

// R rows, V tokens, W = ceil(V / 32), U places for adjustments. f32 [R] unless said.
enum SampleOperand : size_t {
  kSampleLogits,          // f32 [R,V]
  kSampleTemperature,     // <= 0: greedy
  kSampleTopK,            // i32 [R]; <= 0: off
  kSampleTopP,            // >= 1: off
  kSampleMinP,            // 0: off
  kSampleTypicalP,        // >= 1: off
  kSampleXtcProbability,  // 0: off
  kSampleXtcThreshold,
  kSampleUniforms,        // in [0, 1)
  kSampleXtcUniforms,     // in [0, 1)
  kSampleHasMask,         // i32 [R]; 0: every token is allowed and the row's mask is not read
  kSampleTokenMask,       // i32 [R,W]: bit i % 32 of word i / 32 is token i
  kSampleNumAdjustments,  // i32 [R]: live places of the row; the rest is not read
  kSampleAdjustIds,       // i32 [R,U]
  kSampleBias,            // f32 [R,U]
  kSampleRepetition,      // f32 [R,U]; 1: off
  kSamplePenalty,         // f32 [R,U]
  kNumSampleOperands
};

}  // namespace deepinfer::ir
