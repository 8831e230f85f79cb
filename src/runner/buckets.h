// Buckets: the sizes that graphs are compiled for. A step takes the smallest that fits.
//
// Defaults. Prefill tokens: 128, 256, ... doubling below the limit, then the limit; a limit below 128 is the only one.
// Decode rows: 1, 2, 4, ... below the limit, then the limit. Lists given by people are validated in the order and with
// the messages of vllm-neuron's bucket rules. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace deepinfer::runner {

std::vector<int64_t> DefaultPrefillBuckets(int64_t limit);
std::vector<int64_t> DefaultDecodeBuckets(int64_t limit);

// name: the flag; limit_name, limit: what the last bucket must equal.
Status ValidateBuckets(const std::string& name, const std::vector<int64_t>& buckets, const std::string& limit_name,
                       int64_t limit);

// The smallest bucket >= count; -1 if there is none. A count of 0 takes the smallest.
int64_t SelectBucket(const std::vector<int64_t>& buckets, int64_t count);

}  // namespace deepinfer::runner
