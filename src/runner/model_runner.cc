#include "runner/model_runner.h"

#include <xxhash.h>

#include <algorithm>
#include <chrono>

#include "backend/build_id.h"
#include "passes/pass.h"
#include "runner/buckets.h"
#include "runner/memory_table.h"

namespace deepinfer::runner {
namespace {

constexpr int64_t kDefaultModelLen = 8192;
constexpr int64_t kDefaultBatchedTokens = 2048;
constexpr int64_t kDefaultTokensPerSequence = 1024;

int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Bytes of one token in all paged states.
int64_t PagedBytesPerToken(const std::vector<models::StateSpec>& specs) {
  int64_t bytes = 0;
  for (const models::StateSpec& spec : specs) {
    if (spec.kind != models::StateKind::kPaged) continue;
    int64_t row = static_cast<int64_t>(SizeOf(spec.dtype));
    for (const int64_t size : spec.row) row *= size;
    bytes += row;
  }
  return bytes;
}

std::string DigestTypes(const models::WeightTable& types) {
  std::string text;
  for (const auto& [name, type] : types.all()) text += name + " " + ToString(type) + "\n";
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

}  // namespace

ModelRunner::ModelRunner(LoadedModel loaded, std::unique_ptr<backend::Backend> backend, RunnerOptions options)
    : loaded_(std::move(loaded)), backend_(std::move(backend)), options_(std::move(options)) {}

Result<std::unique_ptr<ModelRunner>> ModelRunner::Create(LoadedModel loaded, std::unique_ptr<backend::Backend> backend,
                                                         RunnerOptions options) {
  std::unique_ptr<ModelRunner> runner(new ModelRunner(std::move(loaded), std::move(backend), std::move(options)));
  const auto start = std::chrono::steady_clock::now();
  DI_RETURN_IF_ERROR(runner->ResolveOptions());
  DI_RETURN_IF_ERROR(runner->ResolveBuckets());
  DI_RETURN_IF_ERROR(runner->backend_->SetWeights(runner->loaded_.weights, runner->loaded_.fingerprint));
  DI_RETURN_IF_ERROR(runner->AllocateStates());
  DI_RETURN_IF_ERROR(runner->CompileAll());
  runner->compile_ms_ = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return runner;
}

Status ModelRunner::ResolveOptions() {
  RunnerOptions& o = options_;
  const models::ModelInfo& info = loaded_.model->info();
  if (o.max_model_len == 0) o.max_model_len = std::min(info.max_positions, kDefaultModelLen);
  if (o.max_model_len < 1 || o.max_model_len > info.max_positions) {
    return MakeError(ErrorCode::kInvalidArgument, "--max-model-len", "must be 1 to {}, the model's limit; got {}",
                     info.max_positions, o.max_model_len);
  }
  if (o.max_num_seqs < 1 || o.max_num_seqs > 1024) {
    return MakeError(ErrorCode::kInvalidArgument, "--max-num-seqs", "must be 1 to 1024, got {}", o.max_num_seqs);
  }
  const int64_t limit = backend_->caps().max_batched_tokens;
  if (o.max_num_batched_tokens == 0) {
    o.max_num_batched_tokens = limit > 0 ? std::min(limit, kDefaultBatchedTokens) : kDefaultBatchedTokens;
  }
  if (o.max_num_batched_tokens < 1 || o.max_num_batched_tokens > (1 << 20)) {
    return MakeError(ErrorCode::kInvalidArgument, "--max-num-batched-tokens", "must be 1 to 1048576, got {}",
                     o.max_num_batched_tokens);
  }
  if (limit > 0 && o.max_num_batched_tokens > limit) {
    return MakeError(ErrorCode::kInvalidArgument, "--max-num-batched-tokens", "the {} backend takes at most {}, got {}",
                     backend_->name(), limit, o.max_num_batched_tokens);
  }
  if (o.block_size < 1 || o.block_size > 1024) {
    return MakeError(ErrorCode::kInvalidArgument, "block_size", "must be 1 to 1024, got {}", o.block_size);
  }
  max_blocks_ = CeilDiv(o.max_model_len, o.block_size);
  max_prefill_requests_ = backend_->caps().max_prefill_requests;
  if (max_prefill_requests_ == 0) max_prefill_requests_ = o.max_num_seqs;
  return {};
}

Status ModelRunner::ResolveBuckets() {
  RunnerOptions& o = options_;
  const int64_t tokens = std::min(o.max_num_batched_tokens, o.max_model_len * o.max_num_seqs);
  if (o.prefill_buckets.empty()) o.prefill_buckets = DefaultPrefillBuckets(tokens);
  if (o.decode_buckets.empty()) o.decode_buckets = DefaultDecodeBuckets(o.max_num_seqs);
  DI_RETURN_IF_ERROR(ValidateBuckets("prefill_buckets", o.prefill_buckets, "max_num_batched_tokens", tokens));
  return ValidateBuckets("decode_buckets", o.decode_buckets, "max_num_seqs", o.max_num_seqs);
}

Status ModelRunner::AllocateStates() {
  const std::vector<models::StateSpec> specs = loaded_.model->States(options_.activations);
  const int64_t per_block = PagedBytesPerToken(specs) * options_.block_size;
  int64_t blocks =
      std::max(CeilDiv(options_.max_num_seqs * kDefaultTokensPerSequence, options_.block_size), max_blocks_);
  if (options_.kv_cache_memory > 0 && per_block > 0) {
    blocks = options_.kv_cache_memory / per_block;
    if (blocks < max_blocks_) {
      return MakeError(
          ErrorCode::kResourceExhausted, "--kv-cache-memory",
          "{} MiB hold {} tokens, but one context of {} tokens needs {} MiB; lower --max-model-len to {} or "
          "give more memory",
          options_.kv_cache_memory >> 20, blocks * options_.block_size, options_.max_model_len,
          (max_blocks_ * per_block >> 20) + 1, std::max<int64_t>(blocks, 1) * options_.block_size);
    }
  }
  num_blocks_ = blocks + 1;  // block 0 is the null block
  std::map<std::string, int64_t> bytes;
  for (const models::StateSpec& spec : specs) {
    int64_t row = static_cast<int64_t>(SizeOf(spec.dtype));
    for (const int64_t size : spec.row) row *= size;
    const int64_t rows =
        spec.kind == models::StateKind::kPaged ? num_blocks_ * options_.block_size : options_.max_num_seqs + 1;
    bytes[spec.buffer.empty() ? spec.name : spec.buffer] += row * rows;
  }
  bytes[models::kTokenStore] = (options_.max_num_seqs + 1) * static_cast<int64_t>(sizeof(int32_t));
  state_bytes_ = 0;
  for (const auto& [name, size] : bytes) state_bytes_ += size;
  MemoryNeeds needs;
  for (const auto& [name, type] : loaded_.types.all()) needs.weights += type.Bytes();
  needs.states = state_bytes_;
  needs.buffers = StepBuffers::Bytes(Limits());
  needs.per_token = PagedBytesPerToken(specs);
  needs.context = options_.max_model_len;
  DI_RETURN_IF_ERROR(CheckMemory(needs, FindMemoryLimit()));
  DI_ASSIGN_OR_RETURN(states_, backend_->AllocateStates(bytes));
  return {};
}

BufferLimits ModelRunner::Limits() const {
  BufferLimits limits;
  limits.tokens = std::max(options_.prefill_buckets.back(), options_.decode_buckets.back());
  limits.rows = options_.max_num_seqs;
  limits.requests = std::max(options_.max_num_seqs, max_prefill_requests_);
  limits.max_blocks = max_blocks_;
  limits.vocab = loaded_.model->info().vocab_size;
  return limits;
}

models::StepShape ModelRunner::ShapeFor(models::Phase phase, int64_t bucket) const {
  models::StepShape shape;
  shape.phase = phase;
  const bool prefill = phase == models::Phase::kPrefill;
  shape.tokens = bucket;
  shape.rows = prefill ? options_.max_num_seqs : bucket;
  shape.requests = prefill ? max_prefill_requests_ : bucket;
  shape.block_size = options_.block_size;
  shape.blocks = num_blocks_;
  shape.max_blocks = max_blocks_;
  shape.slots = options_.max_num_seqs;
  shape.activations = shape.kv = options_.activations;
  return shape;
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
  key.activations = shape.activations;
  key.kv = shape.kv;
  key.encodings = encodings_;
  key.numerics = "native";
  key.graph_mode = options_.graph_mode;
  key.passes = backend_->passes();
  return key;
}

Result<ir::Module> ModelRunner::RecordGraph(const models::StepShape& shape) const {
  DI_ASSIGN_OR_RETURN(ir::Module module, RecordRaw(shape));
  passes::PassContext context;
  context.claims = [this](const ir::Function& f, const ir::Node& node) { return backend_->Claims(f, node); };
  passes::PipelineOptions pipeline;
  pipeline.passes = backend_->passes();
  DI_RETURN_IF_ERROR(passes::RunPipeline(&module, context, pipeline));
  return module;
}

Status ModelRunner::CompileAll() {
  encodings_ = DigestTypes(loaded_.types);
  cache_ = std::make_unique<backend::ExecutableCache>(options_.cache_dir, options_.warm_start, options_.log);
  std::vector<backend::ExecutableCache::Request> requests;
  const backend::CompileOptions compile{options_.graph_mode, options_.breaks};
  const auto add = [&](models::Phase phase, int64_t bucket) {
    const models::StepShape shape = ShapeFor(phase, bucket);
    graphs_.push_back({shape, nullptr});
    requests.push_back({KeyFor(shape), [this, shape] { return RecordGraph(shape); },
                        [this, compile](const ir::Module& module) { return backend_->Compile(module, compile); }});
  };
  for (const int64_t bucket : options_.decode_buckets) add(models::Phase::kDecode, bucket);
  for (const int64_t bucket : options_.prefill_buckets) add(models::Phase::kPrefill, bucket);
  DI_ASSIGN_OR_RETURN(const std::vector<backend::Executable*> executables, cache_->GetAll(requests, options_.threads));
  DI_RETURN_IF_ERROR(backend_->Finalize());

  DI_ASSIGN_OR_RETURN(buffers_, StepBuffers::Create(Limits()));
  io_.metadata = buffers_->metadata();
  io_.outputs = buffers_->outputs();
  io_.states = states_.get();
  for (size_t i = 0; i < graphs_.size(); ++i) {
    graphs_[i].executable = executables[i];
    buffers_->FillPadding(graphs_[i].shape);
    DI_RETURN_IF_ERROR(executables[i]->Capture(io_));
  }
  cache_->Lock();
  return {};
}

const CompiledGraph* ModelRunner::Select(const StepPlan& plan) const {
  const bool decode = plan.phase == models::Phase::kDecode;
  const int64_t bucket = SelectBucket(decode ? options_.decode_buckets : options_.prefill_buckets, plan.num_tokens());
  for (const CompiledGraph& graph : graphs_) {
    const models::StepShape& shape = graph.shape;
    if (shape.phase != plan.phase || shape.tokens != bucket) continue;
    const bool fits = plan.num_requests() <= shape.requests && static_cast<int64_t>(plan.rows.size()) <= shape.rows;
    return fits ? &graph : nullptr;
  }
  return nullptr;
}

Result<StepOutput> ModelRunner::Run(const StepPlan& plan) {
  const CompiledGraph* graph = Select(plan);
  if (graph == nullptr) {
    return MakeError(ErrorCode::kInternal, ToString(plan.phase), "no graph for {} tokens, {} rows, {} requests",
                     plan.num_tokens(), plan.rows.size(), plan.num_requests());
  }
  buffers_->Fill(plan, graph->shape);
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

}  // namespace deepinfer::runner
