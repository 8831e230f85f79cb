#include "reference/executable.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <set>

#include "backend/step_io.h"
#include "ir/collective.h"
#include "reference/flatten.h"
#include "reference/states.h"

namespace deepinfer::reference {

using ir::Node;
using ir::Op;

Status Arena::Reserve(int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (bytes <= bytes_) return {};
  if (data_ != nullptr) {
    return MakeError(ErrorCode::kFailedPrecondition, "reference backend",
                     "a graph that needs {} bytes of scratch was compiled after Finalize, which allocated {}", bytes,
                     bytes_);
  }
  bytes_ = bytes;
  return {};
}

Status Arena::Allocate() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (data_ != nullptr) return {};
  constexpr size_t kLine = 64;
  memory_.reset(std::calloc(static_cast<size_t>(bytes_) + kLine, 1));
  if (memory_ == nullptr) {
    return MakeError(ErrorCode::kResourceExhausted, "reference backend", "no memory for {} bytes of scratch", bytes_);
  }
  const auto address = reinterpret_cast<uintptr_t>(memory_.get());
  data_ = static_cast<std::byte*>(memory_.get()) + (kLine - address % kLine) % kLine;
  return {};
}

namespace {

class ReferenceExecutable final : public backend::Executable {
 public:
  ReferenceExecutable(const ir::Module& module, const backend::CompileOptions& options, Shared* shared)
      : module_(module), mode_(options.mode), shared_(shared), ranks_(shared->options.ranks) {
    if (options.mode == backend::GraphMode::kBreakable && options.breaks != nullptr) breaks_ = *options.breaks;
    workspace_ = std::make_shared<interp::Workspace>(shared->team.members());
  }

  ~ReferenceExecutable() override { shared_->own_bytes -= own_bytes_; }

  Status Prepare() {
    if (module_.functions.empty()) return MakeError(ErrorCode::kInvalidArgument, "module", "has no function");
    DI_RETURN_IF_ERROR(CheckRanks());
    int64_t bytes = 0;
    int64_t constant_bytes = 0;
    for (const ir::Function& function : module_.functions) {
      DI_ASSIGN_OR_RETURN(FunctionPlan plan, PlanFunction(module_, function, workspace_));
      plan.frame_base = bytes;
      bytes += plan.frame_bytes;
      for (const auto& [value, constant] : plan.constants) constant_bytes += static_cast<int64_t>(constant.size());
      plans_.emplace(function.name, std::move(plan));
    }
    arena_bytes_ = bytes * ranks_;
    own_bytes_ = constant_bytes + static_cast<int64_t>(workspace_->bytes());
    shared_->own_bytes += own_bytes_;
    DI_RETURN_IF_ERROR(CheckInputs());
    return shared_->arena.Reserve(arena_bytes_);
  }

  Status Capture(const backend::StepIo& io) override {
    if (shared_->arena.data() == nullptr) {
      return MakeError(ErrorCode::kFailedPrecondition, "reference backend", "Capture before Finalize");
    }
    captured_ = false;
    list_.Clear();
    segments_.clear();
    DI_ASSIGN_OR_RETURN(const std::vector<Place> inputs, BindInputs(io));
    DI_ASSIGN_OR_RETURN(const std::vector<void*> outputs, BindOutputs(io));
    ReadLiveCounts(inputs);
    backend::GraphCapture capture;
    DI_RETURN_IF_ERROR(capture.Begin());
    Status recorded;
    auto record = [&](int, int) { recorded = Record(inputs, outputs); };
    shared_->alone.Run(record);
    auto list = capture.End();
    if (!recorded || !list) segments_.clear();
    DI_RETURN_IF_ERROR(recorded);
    DI_RETURN_IF_ERROR(list);
    list_ = *std::move(list);
    guard_.Record(io, state_buffers_);
    captured_ = true;
    return {};
  }

  Status Run(const backend::StepIo& io) override {
    if (!captured_) return MakeError(ErrorCode::kFailedPrecondition, "reference backend", "Run before Capture");
    DI_RETURN_IF_ERROR(guard_.CheckAddresses(io));
    RefreshLiveCounts();
    Status status;
    auto replay = [&](int, int) { status = list_.Replay(); };
    shared_->alone.Run(replay);
    return status;
  }

  std::vector<std::string> Describe() const override {
    std::vector<std::string> lines;
    for (const ir::Function& function : module_.functions) {
      for (const Node& node : function.nodes) {
        if (node.op == Op::kConstant) continue;
        const std::string type = node.results.empty() ? "" : " " + ToString(function.TypeOf(node.results[0]));
        lines.push_back(fmt::format("{}: {}{} (interpreter)", function.name, ToString(node.op), type));
      }
    }
    return lines;
  }

  int64_t scratch_bytes() const override { return arena_bytes_ + own_bytes_; }

 private:
  Status CheckRanks() const {
    const int64_t world = ir::WorldSize(module_);
    if (ranks_ < 1 || (world != 1 && world != ranks_)) {
      return MakeError(ErrorCode::kInvalidArgument, "module", "the step is of {} ranks, this backend runs {}", world,
                       ranks_);
    }
    if (ranks_ == 1) return {};
    for (const ir::Function& function : module_.functions) {
      for (const Node& node : function.nodes) {
        if (node.op != Op::kBreak || breaks_.count(node.Str("name")) == 0) continue;
        return MakeError(ErrorCode::kUnsupported, "break '" + node.Str("name") + "'",
                         "has a host function, which is for one rank; this backend runs {}", ranks_);
      }
    }
    return {};
  }

  Status CheckInputs() {
    std::set<std::string> buffers;
    const ir::Function& entry = module_.entry();
    for (const ir::Input& input : entry.inputs) {
      if (input.kind == ir::InputKind::kArgument) {
        return MakeError(ErrorCode::kInvalidArgument, "input '" + input.name + "'", "a step has no plain arguments");
      }
      if (input.kind == ir::InputKind::kState) buffers.insert(backend::BufferOf(input));
      if (input.kind != ir::InputKind::kWeight) continue;
      const ir::Type& type = entry.TypeOf(input.value);
      const auto weight = shared_->weights.find(input.name);
      if (weight == shared_->weights.end())
        return MakeError(ErrorCode::kNotFound, "weight '" + input.name + "'", "is not loaded");
      if (type.encoding || type.dtype != DType::kF32 || weight->second.encoding != Encoding::kF32 ||
          weight->second.shape != type.Shape()) {
        return MakeError(ErrorCode::kInvalidArgument, "weight '" + input.name + "'",
                         "is {} [{}] where the graph wants {}; this backend reads f32",
                         ToString(weight->second.encoding), fmt::join(weight->second.shape, ","), ToString(type));
      }
    }
    state_buffers_.assign(buffers.begin(), buffers.end());
    return {};
  }

  // Addresses of the entry's inputs, in order.
  Result<std::vector<Place>> BindInputs(const backend::StepIo& io) const {
    DI_ASSIGN_OR_RETURN(const std::vector<backend::StateSet*> states, StatesByRank(io.states, ranks_));
    std::vector<Place> inputs;
    for (const ir::Input& input : module_.entry().inputs) {
      Place& place = inputs.emplace_back();
      for (size_t rank = 0; rank < states.size(); ++rank) {
        DI_ASSIGN_OR_RETURN(void* address, BindInput(input, rank, io, states[rank]));
        place.push_back(address);
      }
    }
    return inputs;
  }

  Result<void*> BindInput(const ir::Input& input, size_t rank, const backend::StepIo& io,
                          backend::StateSet* states) const {
    const ir::Type& type = module_.entry().TypeOf(input.value);
    if (input.kind == ir::InputKind::kState) return backend::StateAddress({{}, {}, states}, input, type);
    // Nothing writes weights or ranks: the verifier refuses it.
    if (input.kind == ir::InputKind::kWeight) {
      return const_cast<std::byte*>(shared_->weights.at(input.name).DataOf(rank));
    }
    if (input.name == ir::kRankInput && type == ir::Type(DType::kI32, {})) return &shared_->rank_numbers[rank];
    return backend::MetadataAddress(io, input.name, type);
  }

  // Of the entry's outputs, in order; null where one is an aliased state.
  Result<std::vector<void*>> BindOutputs(const backend::StepIo& io) const {
    const ir::Function& entry = module_.entry();
    std::set<int> aliased;
    if (const auto it = module_.io_map.find(entry.name); it != module_.io_map.end()) {
      for (const ir::Alias& alias : it->second) aliased.insert(alias.output);
    }
    std::vector<void*> outputs(entry.outputs.size(), nullptr);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (aliased.count(static_cast<int>(i)) != 0) continue;
      const ir::Output& output = entry.outputs[i];
      DI_ASSIGN_OR_RETURN(outputs[i], backend::OutputAddress(io, output.name, entry.TypeOf(output.value)));
    }
    return outputs;
  }

  void ReadLiveCounts(const std::vector<Place>& inputs) {
    live_counts_ = nullptr;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (module_.live_counts != ir::kNoValue && module_.entry().inputs[i].value == module_.live_counts) {
        live_counts_ = static_cast<const int32_t*>(inputs[i][0]);
      }
    }
    RefreshLiveCounts();
  }

  void RefreshLiveCounts() {
    for (size_t i = 0; i < live_.count.size(); ++i) {
      live_.count[i] = live_counts_ == nullptr ? std::numeric_limits<int64_t>::max() : live_counts_[i];
    }
  }

  Status Record(const std::vector<Place>& inputs, const std::vector<void*>& outputs) {
    FlattenContext context{.module = module_, .plans = plans_, .breaks = breaks_};
    context.split = mode_ == backend::GraphMode::kBreakable;
    context.poison_padding = shared_->options.poison_padding;
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      context.frames.push_back(shared_->arena.data() + rank * (arena_bytes_ / ranks_));
    }
    context.add_segment = [this](LaunchList list) {
      return backend::GraphCapture::Current()->AddSegment(Runner(std::move(list)));
    };
    context.add_break = [this](const std::string& name, LaunchList list) {
      return backend::EagerBreak(name, Runner(std::move(list)), mode_);
    };
    return FlattenStep(context, inputs, outputs);
  }

  backend::SegmentFunction Runner(LaunchList list) {
    const LaunchList* launches = &segments_.emplace_back(std::move(list));
    const RankRange all{0, static_cast<size_t>(ranks_)};
    return [this, launches, all] { return RunLaunches(*launches, all, live_, &shared_->team); };
  }

  const ir::Module module_;
  const backend::GraphMode mode_;
  backend::BreakRegistry breaks_;
  Shared* shared_;
  const int64_t ranks_;
  std::shared_ptr<interp::Workspace> workspace_;
  std::map<std::string, FunctionPlan> plans_;
  std::vector<std::string> state_buffers_;
  int64_t arena_bytes_ = 0;  // the frames of all ranks
  int64_t own_bytes_ = 0;    // constants and workspace

  // Set by Capture.
  bool captured_ = false;
  std::deque<LaunchList> segments_;  // addresses of its elements are in list_
  backend::SegmentList list_;
  backend::AddressGuard guard_;
  const int32_t* live_counts_ = nullptr;
  ir::LiveCounts live_;
};

}  // namespace

Result<std::unique_ptr<backend::Executable>> CompileReference(const ir::Module& module,
                                                              const backend::CompileOptions& options, Shared* shared) {
  auto executable = std::make_unique<ReferenceExecutable>(module, options, shared);
  DI_RETURN_IF_ERROR(executable->Prepare());
  return executable;
}

}  // namespace deepinfer::reference
