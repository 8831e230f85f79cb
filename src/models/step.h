// The shape of one step and the names of its inputs and outputs: what the recorder writes and the runner fills.
//
// Everything that varies per step is metadata in a buffer of fixed shape and address; padding values are given here.
// T tokens, R rows (sampled positions), Q requests, M blocks per request. Plain data.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/dtype.h"

namespace deepinfer::models {

enum class Phase { kPrefill, kDecode };
const char* ToString(Phase phase);  // "prefill", "decode"

struct StepShape {
  Phase phase = Phase::kDecode;
  int64_t tokens = 1;    // T: the bucket. Decode: T = R = Q
  int64_t rows = 1;      // R
  int64_t requests = 1;  // Q
  int64_t block_size = 32;
  int64_t blocks = 0;      // N: KV blocks, with the null block 0
  int64_t max_blocks = 0;  // M: width of a block table
  int64_t slots = 0;       // rows of the token store, without the dummy last one
  DType activations = DType::kBF16;
  DType kv = DType::kBF16;
  int64_t ranks = 1;  // that run the step together, each with its shard of the weights (models/tensor_parallel.h)
};

// At most this many of the best tokens can be asked for with their log-probabilities.
inline constexpr int64_t kMaxTopLogprobs = 20;

// A row's list of adjustments has a place for every distinct token of a full context and for these: it cannot overflow.
inline constexpr int64_t kMaxLogitBias = 1024;
// U: places in a row's list of adjustments.
inline int64_t AdjustmentsPerRow(const StepShape& shape, int64_t vocab) {
  return std::min(vocab, shape.max_blocks * shape.block_size + kMaxLogitBias);
}
// W: words of a row's token mask.
inline int64_t MaskWords(int64_t vocab) {
  return (vocab + 31) / 32;
}

// Metadata inputs (i32 unless said). In the order of recording. With several ranks, ir::kRankInput follows.
namespace input {
inline constexpr char kLiveCounts[] = "live_counts";    // [3]: live tokens, rows, requests
inline constexpr char kTokenIds[] = "token_ids";        // [T]; -1: taken from the token store; pad 0
inline constexpr char kTokenSlots[] = "token_slots";    // [T]: token store row to read; pad -1
inline constexpr char kPositions[] = "positions";       // [T]; pad 0
inline constexpr char kSlots[] = "slots";               // [T]: block * block_size + offset; pad -1
inline constexpr char kBlockTables[] = "block_tables";  // [Q,M]; pad -1
inline constexpr char kQueryStart[] = "query_start";    // [Q+1]; unused requests are trailing zero-length ones
inline constexpr char kSamplingPositions[] = "sampling_positions";  // [R], prefill only: index into T; pad 0
inline constexpr char kRowToSlot[] = "row_to_slot";                 // [R]: token store row to commit to; pad -1
inline constexpr char kTemperature[] = "temperature";               // f32 [R]; <= 0 greedy; pad 0
inline constexpr char kTopK[] = "top_k";                            // [R]; 0 off
inline constexpr char kTopP[] = "top_p";                            // f32 [R]; 1 off
inline constexpr char kMinP[] = "min_p";                            // f32 [R]; 0 off
inline constexpr char kTypicalP[] = "typical_p";                    // f32 [R]; 1 off
inline constexpr char kXtcProbability[] = "xtc_probability";        // f32 [R]; 0 off
inline constexpr char kXtcThreshold[] = "xtc_threshold";            // f32 [R]; pad 1
inline constexpr char kUniforms[] = "uniforms";                     // f32 [R] in [0, 1)
inline constexpr char kXtcUniforms[] = "xtc_uniforms";              // f32 [R] in [0, 1)
inline constexpr char kHasMask[] = "has_mask";                      // [R]: 0: the row's token mask is not read
inline constexpr char kTokenMask[] = "token_mask";                  // [R,W]: a bit for each token, ir/sampling.h
inline constexpr char kNumAdjustments[] = "num_adjustments";        // [R]: live places of the next four; pad 0
inline constexpr char kAdjustIds[] = "adjust_ids";                  // [R,U]; past the live places anything
inline constexpr char kBias[] = "bias";                             // f32 [R,U]
inline constexpr char kRepetition[] = "repetition";                 // f32 [R,U]
inline constexpr char kPenalty[] = "penalty";                       // f32 [R,U]
inline constexpr char kLogprobIds[] = "logprob_ids";      // [R]: whose log-probability; pad -1: the sampled token's
inline constexpr char kWantLogprobs[] = "want_logprobs";  // [R]: -1 none, 0 the chosen token's, n also the n best
}  // namespace input

// States every model has beside its own: the sampled tokens, i32 [slots + 1].
inline constexpr char kTokenStore[] = "token_store";

namespace output {
inline constexpr char kSampled[] = "sampled";           // i32 [R]; -1: the row's logits held a NaN
inline constexpr char kLogits[] = "logits";             // f32 [R,V]
inline constexpr char kLogprob[] = "logprob";           // f32 [R]
inline constexpr char kTopIds[] = "top_ids";            // i32 [R,20]
inline constexpr char kTopLogprobs[] = "top_logprobs";  // f32 [R,20]
}  // namespace output

}  // namespace deepinfer::models
