// Runs steps of one model: compiles a graph per (phase, bucket), owns states and buffers, fills and executes.
//
// Create records, compiles (or finds in the cache) and captures every graph, then locks the cache: from then on Run
// only selects a bucket, fills metadata and replays. Run allocates nothing once the plan's vectors have their size. One
// thread at a time. Errors of Run concern the step, not the process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/executable_cache.h"
#include "base/error.h"
#include "models/model.h"
#include "runner/load.h"
#include "runner/step_buffers.h"
#include "runner/step_plan.h"

namespace deepinfer::runner {

struct RunnerOptions {
  DType activations = DType::kBF16;  // and KV: bf16 or f32
  int64_t max_model_len = 0;         // 0: min(the model's, 8192)
  int64_t max_num_seqs = 32;
  int64_t max_num_batched_tokens = 0;  // 0: 2048, or the backend's limit
  int64_t block_size = 32;
  int64_t kv_cache_memory = 0;           // bytes; 0: max_num_seqs * 1024 tokens or one full context, whichever is more
  std::vector<int64_t> prefill_buckets;  // empty: the defaults
  std::vector<int64_t> decode_buckets;
  backend::GraphMode graph_mode = backend::GraphMode::kFull;
  const backend::BreakRegistry* breaks = nullptr;
  backend::WarmStart warm_start = backend::WarmStart::kTrust;
  std::string cache_dir;  // empty: no disk cache
  int threads = 1;        // for compiling
  std::function<void(const std::string&)> log;
};

struct CompiledGraph {
  models::StepShape shape;
  backend::Executable* executable = nullptr;
};

// What one step produced; views that hold until the next Run.
struct StepOutput {
  const int32_t* sampled = nullptr;  // [R]; -1: the row's logits held a NaN
  const float* logits = nullptr;     // [R, vocab]
  const float* logprob = nullptr;
  const int32_t* top_ids = nullptr;  // row stride top_stride
  const float* top_logprobs = nullptr;
  int64_t vocab = 0;
  int64_t top_stride = 0;
};

class ModelRunner {
 public:
  static Result<std::unique_ptr<ModelRunner>> Create(LoadedModel loaded, std::unique_ptr<backend::Backend> backend,
                                                     RunnerOptions options);

  const models::Model& model() const { return *loaded_.model; }
  const RunnerOptions& options() const { return options_; }  // with every default filled in
  int64_t num_blocks() const { return num_blocks_; }         // with the null block
  int64_t max_blocks() const { return max_blocks_; }         // per request
  int64_t max_prefill_requests() const { return max_prefill_requests_; }
  int64_t state_bytes() const { return state_bytes_; }
  backend::Backend& backend() { return *backend_; }
  const std::vector<CompiledGraph>& graphs() const { return graphs_; }
  const backend::ExecutableCache& cache() const { return *cache_; }
  const StepBuffers& buffers() const { return *buffers_; }
  double compile_ms() const { return compile_ms_; }

  // The graph after the backend's passes, as it is compiled.
  Result<ir::Module> RecordGraph(const models::StepShape& shape) const;
  // Before any pass.
  Result<ir::Module> RecordRaw(const models::StepShape& shape) const {
    return loaded_.model->Record(shape, loaded_.types);
  }

  Result<StepOutput> Run(const StepPlan& plan);

 private:
  ModelRunner(LoadedModel loaded, std::unique_ptr<backend::Backend> backend, RunnerOptions options);
  Status ResolveOptions();
  Status ResolveBuckets();
  Status AllocateStates();
  BufferLimits Limits() const;
  Status CompileAll();
  backend::GraphKey KeyFor(const models::StepShape& shape) const;
  models::StepShape ShapeFor(models::Phase phase, int64_t bucket) const;
  const CompiledGraph* Select(const StepPlan& plan) const;

  LoadedModel loaded_;
  std::unique_ptr<backend::Backend> backend_;
  RunnerOptions options_;
  int64_t num_blocks_ = 0;
  int64_t max_blocks_ = 0;
  int64_t max_prefill_requests_ = 0;
  int64_t state_bytes_ = 0;
  std::string encodings_;
  std::vector<CompiledGraph> graphs_;
  std::unique_ptr<backend::ExecutableCache> cache_;
  std::unique_ptr<StepBuffers> buffers_;
  std::unique_ptr<backend::StateSet> states_;
  backend::StepIo io_;
  double compile_ms_ = 0;
};

}  // namespace deepinfer::runner
