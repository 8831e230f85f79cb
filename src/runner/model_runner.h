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
#include "runner/runner_options.h"
#include "runner/step_buffers.h"
#include "runner/step_plan.h"
#include "runner/step_shapes.h"

namespace deepinfer::runner {

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
  const RunnerOptions& options() const { return steps_.options; }  // with every default filled in
  int64_t num_blocks() const { return steps_.sizes.blocks; }       // with the null block
  int64_t max_blocks() const { return steps_.sizes.max_blocks; }   // per request
  int64_t max_prefill_requests() const { return steps_.sizes.prefill_requests; }
  int64_t ranks() const { return steps_.sizes.ranks; }
  int64_t state_bytes() const { return state_bytes_; }  // of all ranks
  backend::Backend& backend() { return *backend_; }
  const std::vector<CompiledGraph>& graphs() const { return graphs_; }
  const backend::ExecutableCache& cache() const { return *cache_; }
  const StepBuffers& buffers() const { return *buffers_; }
  // Gets the memory of all states now (backend::StateSet::Populate). From any thread, steps may run meanwhile.
  void PopulateStates() const { states_->Populate(); }
  double compile_ms() const { return compile_ms_; }

  // The graph after the backend's passes, as it is compiled.
  Result<ir::Module> RecordGraph(const models::StepShape& shape) const;
  // Before any pass.
  Result<ir::Module> RecordRaw(const models::StepShape& shape) const;

  // Where masks and adjustments come late (StepPlan::late), waits for them: within the step, right before it samples,
  // if the backend can, else before it.
  Result<StepOutput> Run(const StepPlan& plan);
  // Runs the plan's step with every launch timed (backend::Executable::Profile). Nothing may come late.
  Result<std::vector<backend::LaunchProfile>> Profile(const StepPlan& plan);

 private:
  // Brings late rows into the buffers.
  struct LateFill : backend::LateInputs {
    void Await() override { buffers->FillLate(rows->Await()); }
    StepBuffers* buffers = nullptr;
    LateRows* rows = nullptr;
  };

  ModelRunner(LoadedModel loaded, std::unique_ptr<backend::Backend> backend, StepConfig steps);
  Status AllocateStates();
  Status CompileAll();
  backend::GraphKey KeyFor(const models::StepShape& shape) const;
  Result<const CompiledGraph*> Select(const StepPlan& plan) const;

  LoadedModel loaded_;
  std::unique_ptr<backend::Backend> backend_;
  StepConfig steps_;
  int64_t state_bytes_ = 0;
  std::string encodings_;
  std::vector<CompiledGraph> graphs_;
  std::unique_ptr<backend::ExecutableCache> cache_;
  std::unique_ptr<StepBuffers> buffers_;
  std::unique_ptr<backend::StateSet> states_;
  backend::StepIo io_;
  LateFill late_;
  bool late_in_step_ = false;  // the backend takes late inputs
  double compile_ms_ = 0;
};

}  // namespace deepinfer::runner
