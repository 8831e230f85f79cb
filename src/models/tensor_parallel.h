// Tensor parallelism of a decoder: what each of N ranks holds and computes.
//
// Heads and the feed-forward width are divided: q, k, v, gate and up by their outputs, o and down by their inputs,
// whose products an all_reduce adds up. Norms are whole. Key/value heads are divided too, or, where they are fewer than
// ranks, each is held by ranks / heads neighbours. The vocabulary is divided if it can be. So a rank records the step
// of a narrower model, with collectives between. Source: Shoeybi et al., Megatron-LM (2019). Pure; thread-safe.
#pragma once

#include "base/error.h"
#include "models/decoder_config.h"
#include "models/model.h"

namespace deepinfer::models {

// The config of the narrower model: its heads, key/value heads and feed-forward width are those of one rank. Fails,
// naming the number, where one does not divide.
Result<DecoderConfig> ConfigOfRank(const DecoderConfig& config, int64_t ranks);

// ConfigOfRank must accept the ranks.
WeightShard ShardOf(Split split, const DecoderConfig& config, int64_t ranks);

}  // namespace deepinfer::models
