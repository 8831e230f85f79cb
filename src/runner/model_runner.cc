#include "runner/model_runner.h"

#include <xxhash.h>

#include <algorithm>
#include <chrono>

#include "backend/build_id.h"
#include "runner/buckets.h"
#include "runner/memory_table.h"
#include "runner/record.h"

namespace deepinfer::runner {
namespace {

std::string DigestTypes(const std::vector<models::WeightTable>& types_by_rank) {
  std::string text;
  for (const models::WeightTable& types : types_by_rank) {
    for (const auto& [name, type] : types.all()) text += name + " " + ToString(type) + "\n";
  }
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

}  // namespace

ModelRunner::ModelRunner(LoadedModel loaded, std::unique_ptr<backend::Backend> backend, StepConfig steps)
    : loaded_(std::move(loaded)), backend_(std::move(backend)), steps_(std::move(steps)) {}

Result<std::unique_ptr<ModelRunner>> ModelRunner::Create(LoadedModel loaded, std::unique_ptr<backend::Backend> backend,
                                                         RunnerOptions options) {
  const auto start = std::chrono::steady_clock::now();
  DI_ASSIGN_OR_RETURN(StepConfig steps,
                      ResolveSteps(*loaded.model, backend->name(), backend->caps(), std::move(options)));
  std::unique_ptr<ModelRunner> runner(new ModelRunner(std::move(loaded), std::move(backend), std::move(steps)));
  DI_RETURN_IF_ERROR(runner->backend_->SetWeights(runner->loaded_.weights, runner->loaded_.fingerprint));
  DI_RETURN_IF_ERROR(runner->AllocateStates());
  DI_RETURN_IF_ERROR(runner->CompileAll());
  runner->compile_ms_ = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return runner;
}

Status ModelRunner::AllocateStates() {
  const MemoryNeeds needs = NeedsOf(*loaded_.model, loaded_.types, steps_);
  state_bytes_ = needs.states;
  DI_RETURN_IF_ERROR(CheckMemory(needs, FindMemoryLimit()));
  const std::map<std::string, int64_t> bytes =
      steps_.sizes.StateBytes(loaded_.model->States(steps_.sizes.kv, steps_.sizes.ranks));
  DI_ASSIGN_OR_RETURN(states_, backend_->AllocateStates(bytes));
  return {};
}

backend::GraphKey ModelRunner::KeyFor(const models::StepShape& shape) const {
  backend::GraphKey key;
  key.model = loaded_.fingerprint;
  key.build = backend::BuildId();
  key.backend = backend_->name();
  key.target = backend_->target();
  key.phase = ToString(shape.phase);
  key.tokens = shape.tokens;
  key.rows = shape.rows;
  key.requests = shape.requests;
  key.block_size = shape.block_size;
  key.blocks = shape.blocks;
  key.max_blocks = shape.max_blocks;
  key.slots = shape.slots;
  key.ranks = shape.ranks;
  key.activations = shape.activations;
  key.kv = shape.kv;
  key.encodings = encodings_;
  key.numerics = ToString(options().numerics);
  key.graph_mode = options().graph_mode;
  key.passes = backend_->passes();
  return key;
}

Result<ir::Module> ModelRunner::RecordRaw(const models::StepShape& shape) const {
  return runner::RecordRaw(*loaded_.model, shape, loaded_.types);
}

Result<ir::Module> ModelRunner::RecordGraph(const models::StepShape& shape) const {
  return runner::RecordGraph(*loaded_.model, shape, loaded_.types, TargetOf(*backend_));
}

Status ModelRunner::CompileAll() {
  encodings_ = DigestTypes(loaded_.types);
  cache_ = std::make_unique<backend::ExecutableCache>(options().cache_dir, options().warm_start, options().log);
  std::vector<backend::ExecutableCache::Request> requests;
  const backend::CompileOptions compile{options().graph_mode, options().breaks};
  const auto add = [&](models::Phase phase, int64_t bucket) {
    const models::StepShape shape = steps_.sizes.ShapeFor(phase, bucket);
    graphs_.push_back({shape, nullptr});
    requests.push_back({KeyFor(shape), [this, shape] { return RecordGraph(shape); },
                        [this, compile](const ir::Module& module) { return backend_->Compile(module, compile); }});
  };
  for (const int64_t bucket : options().decode_buckets) add(models::Phase::kDecode, bucket);
  for (const int64_t bucket : options().prefill_buckets) add(models::Phase::kPrefill, bucket);
  DI_ASSIGN_OR_RETURN(const std::vector<backend::Executable*> executables, cache_->GetAll(requests, options().threads));
  DI_RETURN_IF_ERROR(backend_->Finalize());

  DI_ASSIGN_OR_RETURN(buffers_, StepBuffers::Create(LimitsOf(*loaded_.model, steps_)));
  io_.metadata = buffers_->metadata();
  io_.outputs = buffers_->outputs();
  io_.states = states_.get();
  io_.late_inputs = StepBuffers::LateInputs();
  late_.buffers = buffers_.get();
  late_in_step_ = backend_->caps().late_inputs;
  for (size_t i = 0; i < graphs_.size(); ++i) {
    graphs_[i].executable = executables[i];
    buffers_->FillPadding(graphs_[i].shape);
    DI_RETURN_IF_ERROR(executables[i]->Capture(io_));
  }
  cache_->Lock();
  return {};
}

Result<const CompiledGraph*> ModelRunner::Select(const StepPlan& plan) const {
  const int64_t bucket = SelectBucket(steps_.buckets(plan.phase), plan.num_tokens());
  for (const CompiledGraph& graph : graphs_) {
    const models::StepShape& shape = graph.shape;
    if (shape.phase != plan.phase || shape.tokens != bucket) continue;
    const bool fits = plan.num_requests() <= shape.requests && static_cast<int64_t>(plan.rows.size()) <= shape.rows;
    if (fits) return &graph;
  }
  return MakeError(ErrorCode::kInternal, ToString(plan.phase), "no graph for {} tokens, {} rows, {} requests",
                   plan.num_tokens(), plan.rows.size(), plan.num_requests());
}

Result<StepOutput> ModelRunner::Run(const StepPlan& plan) {
  DI_ASSIGN_OR_RETURN(const CompiledGraph* graph, Select(plan));
  buffers_->Fill(plan, graph->shape);
  late_.rows = plan.late;
  io_.late = plan.late != nullptr && late_in_step_ ? &late_ : nullptr;
  if (plan.late != nullptr && !late_in_step_) late_.Await();
  DI_RETURN_IF_ERROR(graph->executable->Run(io_));
  StepOutput output;
  output.sampled = buffers_->sampled();
  output.logits = buffers_->logits();
  output.logprob = buffers_->logprob();
  output.top_ids = buffers_->top_ids();
  output.top_logprobs = buffers_->top_logprobs();
  output.vocab = loaded_.model->info().vocab_size;
  output.top_stride = buffers_->top_stride();
  return output;
}

Result<std::vector<backend::LaunchProfile>> ModelRunner::Profile(const StepPlan& plan) {
  DI_ASSIGN_OR_RETURN(const CompiledGraph* graph, Select(plan));
  buffers_->Fill(plan, graph->shape);
  return graph->executable->Profile(io_);
}

}  // namespace deepinfer::runner
