#include "runner/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "passes/pass.h"
#include "runner/record.h"

namespace deepinfer::runner {
namespace {

float Element(const void* data, DType dtype, int64_t index) {
  if (dtype == DType::kBF16) return BF16ToF32(static_cast<const uint16_t*>(data)[index]);
  if (dtype == DType::kF16) return F16ToF32(static_cast<const uint16_t*>(data)[index]);
  return static_cast<const float*>(data)[index];
}

}  // namespace

Result<std::unique_ptr<TraceRunner>> TraceRunner::Create(LoadedModel loaded, std::unique_ptr<backend::Backend> backend,
                                                         const TraceOptions& options) {
  std::unique_ptr<TraceRunner> runner(new TraceRunner(std::move(loaded), std::move(backend), options));
  const int64_t limit = runner->loaded_.model->info().max_positions;
  if (options.chunk < 1 || options.context < 1 || options.context > limit) {
    return MakeError(ErrorCode::kInvalidArgument, "verify", "{} tokens do not fit the model's context of {}",
                     options.context, limit);
  }
  StepSizes& sizes = runner->sizes_;
  sizes.prefill_rows = options.chunk;
  sizes.block_size = options.block_size;
  sizes.max_blocks = CeilDiv(options.context, options.block_size);
  sizes.blocks = sizes.max_blocks + 1;  // with the null block
  sizes.slots = 1;
  sizes.activations = options.activations;
  sizes.kv = options.kv.value_or(options.activations);
  sizes.ranks = runner->backend_->caps().ranks;
  DI_RETURN_IF_ERROR(runner->backend_->SetWeights(runner->loaded_.weights, runner->loaded_.fingerprint));
  DI_RETURN_IF_ERROR(runner->Compile());
  return runner;
}

Result<ir::Module> TraceRunner::Record(models::Phase phase) const {
  GraphTarget target = TargetOf(*backend_);
  target.passes.insert(target.passes.begin(), "expose_calls");
  return RecordGraph(*loaded_.model, ShapeFor(phase), loaded_.types, target);
}

// Memory for the outputs that StepBuffers does not know. Of the largest graph; the smaller one uses its beginning.
Status TraceRunner::AddTraced(const ir::Module& module) {
  for (const ir::Output& output : module.entry().outputs) {
    if (output.name.rfind(passes::kExposedPrefix, 0) != 0) continue;
    const ir::Type& type = module.entry().TypeOf(output.value);
    const bool readable = type.dtype == DType::kF32 || type.dtype == DType::kBF16 || type.dtype == DType::kF16;
    if (!readable || type.LeadingTag() != ir::DimTag::kTokens) {
      return MakeError(ErrorCode::kUnsupported, output.name, "cannot compare values of type {}", ToString(type));
    }
    memory_.emplace_back(static_cast<size_t>(CeilDiv(type.Bytes(), sizeof(float))) + 1);
    Traced traced{
        {output.name, memory_.back().data(), type.Bytes()}, type.dtype, type.NumElements() / type.dims[0].size};
    names_.push_back(output.name);
    io_.outputs.push_back(traced.slot);
    traced_.push_back(std::move(traced));
  }
  const auto logits = std::find_if(io_.outputs.begin(), io_.outputs.end(),
                                   [](const backend::HostSlot& slot) { return slot.name == models::output::kLogits; });
  names_.emplace_back(models::output::kLogits);
  traced_.push_back({*logits, DType::kF32, vocab()});
  return {};
}

Status TraceRunner::Compile() {
  BufferLimits limits;
  limits.tokens = limits.rows = options_.chunk;
  limits.requests = 1;
  limits.max_blocks = sizes_.max_blocks;
  limits.vocab = vocab();
  limits.adjustments = models::AdjustmentsPerRow(sizes_.ShapeFor(models::Phase::kDecode, 1), limits.vocab);
  DI_ASSIGN_OR_RETURN(buffers_, StepBuffers::Create(limits));
  io_.metadata = buffers_->metadata();
  io_.outputs = buffers_->outputs();
  for (int64_t block = 1; block <= limits.max_blocks; ++block) block_table_.push_back(static_cast<int32_t>(block));
  DI_ASSIGN_OR_RETURN(states_,
                      backend_->AllocateStates(sizes_.StateBytes(loaded_.model->States(sizes_.kv, sizes_.ranks))));
  for (const models::Phase phase : {models::Phase::kPrefill, models::Phase::kDecode}) {
    DI_ASSIGN_OR_RETURN(const ir::Module module, Record(phase));
    if (phase == models::Phase::kPrefill) DI_RETURN_IF_ERROR(AddTraced(module));
    DI_ASSIGN_OR_RETURN(executables_[static_cast<int>(phase)], backend_->Compile(module, {}));
  }
  DI_RETURN_IF_ERROR(backend_->Finalize());
  io_.states = states_.get();
  for (const models::Phase phase : {models::Phase::kPrefill, models::Phase::kDecode}) {
    buffers_->FillPadding(ShapeFor(phase));
    DI_RETURN_IF_ERROR(executables_[static_cast<int>(phase)]->Capture(io_));
  }
  return {};
}

void TraceRunner::Plan(const std::vector<int32_t>& ids, models::Phase phase) {
  plan_.Clear();
  plan_.phase = phase;
  for (size_t i = 0; i < ids.size(); ++i) {
    const int64_t position = position_ + static_cast<int64_t>(i);
    plan_.tokens.push_back(ids[i]);
    plan_.positions.push_back(static_cast<int32_t>(position));
    plan_.slots.push_back(static_cast<int32_t>(block_table_[position / options_.block_size] * options_.block_size +
                                               position % options_.block_size));
    plan_.rows.emplace_back();
    plan_.rows.back().token = static_cast<int32_t>(i);
  }
  plan_.query_start.push_back(static_cast<int32_t>(ids.size()));
  plan_.block_tables.push_back(&block_table_);
}

Status TraceRunner::Run(const std::vector<int32_t>& ids) {
  const int64_t count = static_cast<int64_t>(ids.size());
  if (count < 1 || count > options_.chunk || position_ + count > options_.context) {
    return MakeError(ErrorCode::kInvalidArgument, "verify",
                     "{} tokens after {} do not fit steps of {} in a context of {}", count, position_, options_.chunk,
                     options_.context);
  }
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab()) {
      return MakeError(ErrorCode::kInvalidArgument, "prompt", "token id {} is not in [0, {})", id, vocab());
    }
  }
  const models::Phase phase = count == 1 && position_ > 0 ? models::Phase::kDecode : models::Phase::kPrefill;
  Plan(ids, phase);
  buffers_->Fill(plan_, ShapeFor(phase));
  DI_RETURN_IF_ERROR(executables_[static_cast<int>(phase)]->Run(io_));
  position_ += count;
  return {};
}

std::vector<float> TraceRunner::Values(size_t value) const {
  const Traced& traced = traced_[value];
  std::vector<float> values(static_cast<size_t>(plan_.num_tokens() * traced.row));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = Element(traced.slot.data, traced.dtype, static_cast<int64_t>(i));
  return values;
}

double ValueDifference::relative() const {
  if (not_finite) return std::numeric_limits<double>::infinity();
  return max_value > 0 ? max_abs / max_value : max_abs;
}

const ValueDifference* VerifyReport::FirstAbove(double tolerance) const {
  for (const ValueDifference& value : values) {
    if (value.relative() > tolerance) return &value;
  }
  return nullptr;
}

namespace {

void Compare(const std::vector<float>& a, const std::vector<float>& b, int64_t rows, int64_t first_position,
             ValueDifference* worst) {
  const int64_t width = static_cast<int64_t>(a.size()) / rows;
  for (int64_t row = 0; row < rows; ++row) {
    ValueDifference here{worst->name, first_position + row};
    for (int64_t i = row * width; i < (row + 1) * width; ++i) {
      if (std::isfinite(a[i]) != std::isfinite(b[i])) worst->not_finite = true;
      if (!std::isfinite(a[i]) || !std::isfinite(b[i])) continue;
      here.max_abs = std::max(here.max_abs, std::fabs(static_cast<double>(a[i]) - b[i]));
      here.max_value = std::max<double>({here.max_value, std::fabs(a[i]), std::fabs(b[i])});
    }
    here.not_finite = worst->not_finite;
    const bool first = worst->max_value == 0;
    if (first || here.max_abs * worst->max_value > worst->max_abs * here.max_value) *worst = here;
  }
}

int64_t Best(const float* logits, int64_t vocab) {
  return std::max_element(logits, logits + vocab) - logits;
}

class Verifier {
 public:
  Verifier(TraceRunner* first, TraceRunner* second) : first_(first), second_(second) {
    for (const std::string& name : first->names()) report_.values.push_back({name});
  }

  Status Step(const std::vector<int32_t>& ids) {
    const int64_t position = first_->computed();
    DI_RETURN_IF_ERROR(first_->Run(ids));
    DI_RETURN_IF_ERROR(second_->Run(ids));
    const int64_t rows = static_cast<int64_t>(ids.size());
    for (size_t i = 0; i < report_.values.size(); ++i) {
      const std::vector<float> a = first_->Values(i);
      const std::vector<float> b = second_->Values(i);
      Compare(a, b, rows, position, &report_.values[i]);
      if (i + 1 == report_.values.size()) CompareBest(a, b, rows);
    }
    report_.positions += rows;
    ++report_.steps;
    return {};
  }

  int32_t next() const { return next_; }
  VerifyReport TakeReport() { return std::move(report_); }

 private:
  void CompareBest(const std::vector<float>& a, const std::vector<float>& b, int64_t rows) {
    const int64_t vocab = first_->vocab();
    for (int64_t row = 0; row < rows; ++row) {
      const float* logits = a.data() + row * vocab;
      const int64_t mine = Best(logits, vocab);
      const int64_t other = Best(b.data() + row * vocab, vocab);
      next_ = static_cast<int32_t>(mine);
      if (mine == other) {
        ++report_.best_equal;
      } else {
        report_.largest_margin_lost = std::max<double>(report_.largest_margin_lost, logits[mine] - logits[other]);
      }
    }
  }

  TraceRunner* first_;
  TraceRunner* second_;
  VerifyReport report_;
  int32_t next_ = 0;
};

}  // namespace

Result<VerifyReport> VerifySteps(TraceRunner* first, TraceRunner* second, const std::vector<int32_t>& prompt,
                                 int64_t decode_steps, const std::function<void(int64_t)>& told) {
  if (prompt.empty()) return MakeError(ErrorCode::kInvalidArgument, "prompt", "is empty");
  if (first->names() != second->names() || first->vocab() != second->vocab()) {
    return MakeError(ErrorCode::kInternal, "verify", "the two sides trace different values");
  }
  Verifier verifier(first, second);
  const int64_t chunk = std::min(first->options().chunk, second->options().chunk);
  for (size_t at = 0; at < prompt.size(); at += static_cast<size_t>(chunk)) {
    const size_t end = std::min(prompt.size(), at + static_cast<size_t>(chunk));
    DI_RETURN_IF_ERROR(
        verifier.Step({prompt.begin() + static_cast<int64_t>(at), prompt.begin() + static_cast<int64_t>(end)}));
    if (told) told(static_cast<int64_t>(end - at));
  }
  for (int64_t step = 0; step < decode_steps; ++step) {
    DI_RETURN_IF_ERROR(verifier.Step({verifier.next()}));
    if (told) told(1);
  }
  return verifier.TakeReport();
}

}  // namespace deepinfer::runner
