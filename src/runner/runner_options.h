// What a runner is asked for. Zeros and empty lists stand for defaults, which ResolveSteps (runner/step_shapes.h) fills
// in. Plain data.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/executable_cache.h"
#include "base/dtype.h"
#include "base/numerics.h"

namespace deepinfer::runner {

struct RunnerOptions {
  Numerics numerics = Numerics::kNative;  // of the backend given: part of what graphs are cached by
  DType activations = DType::kBF16;       // bf16 or f32
  std::optional<DType> kv;                // f32, bf16, f16, f8e4m3fn or i8; none: as the activations
  int64_t max_model_len = 0;              // 0: min(the model's, 8192)
  int64_t max_num_seqs = 32;
  int64_t max_num_batched_tokens = 0;  // 0: 2048, or the backend's limit
  int64_t block_size = 32;
  int64_t kv_cache_memory = 0;  // bytes, of each rank; 0: max_num_seqs * 1024 tokens or one full context, if more
  std::vector<int64_t> prefill_buckets;  // empty: the defaults
  std::vector<int64_t> decode_buckets;
  backend::GraphMode graph_mode = backend::GraphMode::kFull;
  const backend::BreakRegistry* breaks = nullptr;
  backend::WarmStart warm_start = backend::WarmStart::kTrust;
  std::string cache_dir;  // empty: no disk cache
  int threads = 1;        // for compiling
  std::function<void(const std::string&)> log;
};

}  // namespace deepinfer::runner
