// The same steps on two backends, and where their values part.
//
// A TraceRunner runs one sequence through a prefill graph of `chunk` tokens and a decode graph of one, both recorded as
// the model records them with every outlined layer's results added as outputs (pass expose_calls), then taken through
// the backend's own passes. So each side computes what it always computes, and what it computes after each layer can be
// read. States start at zero; nothing is cached on disk. One thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/error.h"
#include "runner/load.h"
#include "runner/step_buffers.h"
#include "runner/step_plan.h"
#include "runner/step_shapes.h"

namespace deepinfer::runner {

struct TraceOptions {
  DType activations = DType::kBF16;
  std::optional<DType> kv;  // none: as the activations
  int64_t chunk = 64;       // tokens of a prefill step at most
  int64_t context = 64;     // tokens in all
  int64_t block_size = 32;
};

class TraceRunner {
 public:
  static Result<std::unique_ptr<TraceRunner>> Create(LoadedModel loaded, std::unique_ptr<backend::Backend> backend,
                                                     const TraceOptions& options);

  // Appends tokens to the sequence in one step: one token runs the decode graph unless it is the first, 2 to chunk
  // tokens run the prefill graph. Fails if the context is exceeded or an id is outside the vocabulary.
  Status Run(const std::vector<int32_t>& ids);

  int64_t vocab() const { return loaded_.model->info().vocab_size; }
  int64_t computed() const { return static_cast<int64_t>(position_); }
  // Values of the last step, in the order of the step; logits come last.
  const std::vector<std::string>& names() const { return names_; }
  // Rows of the last step's tokens as f32, row after row. value < names().size().
  std::vector<float> Values(size_t value) const;
  const TraceOptions& options() const { return options_; }

 private:
  TraceRunner(LoadedModel loaded, std::unique_ptr<backend::Backend> backend, const TraceOptions& options)
      : loaded_(std::move(loaded)), backend_(std::move(backend)), options_(options) {}

  struct Traced {
    backend::HostSlot slot;
    DType dtype = DType::kF32;
    int64_t row = 0;  // elements
  };

  models::StepShape ShapeFor(models::Phase phase) const {
    return sizes_.ShapeFor(phase, phase == models::Phase::kPrefill ? options_.chunk : 1);
  }
  Result<ir::Module> Record(models::Phase phase) const;
  Status AddTraced(const ir::Module& module);
  Status Compile();
  void Plan(const std::vector<int32_t>& ids, models::Phase phase);

  LoadedModel loaded_;
  std::unique_ptr<backend::Backend> backend_;
  TraceOptions options_;
  StepSizes sizes_;
  std::unique_ptr<StepBuffers> buffers_;
  std::unique_ptr<backend::StateSet> states_;
  std::unique_ptr<backend::Executable> executables_[2];  // by models::Phase
  std::vector<std::vector<float>> memory_;               // of what is traced; floats for their alignment
  std::vector<std::string> names_;
  std::vector<Traced> traced_;
  backend::StepIo io_;
  std::vector<int32_t> block_table_;
  StepPlan plan_;
  int64_t position_ = 0;
};

// Where two sides differ most, relative to the row's own size: single positions (the first, as a rule) have values a
// thousand times those of all others, which would hide everything else.
struct ValueDifference {
  std::string name;
  int64_t position = 0;     // the row with the largest ratio
  double max_abs = 0;       // its largest difference
  double max_value = 0;     // its largest magnitude on either side
  bool not_finite = false;  // one side had a NaN or an infinity where the other had none
  double relative() const;  // max_abs / max_value; infinity if not_finite
};

struct VerifyReport {
  std::vector<ValueDifference> values;  // in the order of the step, logits last
  int64_t positions = 0;
  int64_t steps = 0;
  int64_t best_equal = 0;          // positions at which both have the same best token
  double largest_margin_lost = 0;  // where they have not: the first side's gap between its best and the other's best
  const ValueDifference* FirstAbove(double tolerance) const;  // null: none
};

// The prompt in chunks, then decode_steps tokens, the first side's best ones. told: positions done since the last call.
Result<VerifyReport> VerifySteps(TraceRunner* first, TraceRunner* second, const std::vector<int32_t>& prompt,
                                 int64_t decode_steps, const std::function<void(int64_t)>& told);

}  // namespace deepinfer::runner
