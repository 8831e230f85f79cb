// Logits of every position of a prompt: what logits and perplexity have in common.
#pragma once

#include <functional>

#include "cli/progress.h"
#include "cli/session.h"

namespace deepinfer::cli {

// Rows of a step are bounded by --max-num-seqs; with this many a prompt runs in chunks of 128 tokens, the smallest
// prefill bucket, and no padding is computed.
inline constexpr int64_t kPromptLogitsRows = 128;

using LogitsSink = std::function<void(int64_t position, const float* logits, int64_t vocab)>;

// Calls `sink` once per position, in order. progress advances by one per position; may be null.
Status ForEachPromptLogits(const Session& session, std::vector<int32_t> prompt, const LogitsSink& sink,
                           Progress* progress);

}  // namespace deepinfer::cli
