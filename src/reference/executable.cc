#include "reference/executable.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <set>

#include "backend/step_io.h"

namespace deepinfer::reference {

using ir::Node;
using ir::Op;
using ir::ValueId;

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
      : module_(module), mode_(options.mode), shared_(shared) {
    if (options.mode == backend::GraphMode::kBreakable && options.breaks != nullptr) breaks_ = *options.breaks;
    workspace_ = std::make_shared<interp::Workspace>(shared->team.members());
  }

  ~ReferenceExecutable() override { shared_->own_bytes -= own_bytes_; }

  Status Prepare() {
    if (module_.functions.empty()) return MakeError(ErrorCode::kInvalidArgument, "module", "has no function");
    int64_t bytes = 0;
    int64_t constant_bytes = 0;
    for (const ir::Function& function : module_.functions) {
      DI_ASSIGN_OR_RETURN(FunctionPlan plan, PlanFunction(module_, function, workspace_));
      plan.frame_base = bytes;
      bytes += plan.frame_bytes;
      for (const auto& [value, constant] : plan.constants) constant_bytes += static_cast<int64_t>(constant.size());
      plans_.emplace(function.name, std::move(plan));
    }
    arena_bytes_ = bytes;
    own_bytes_ = constant_bytes + static_cast<int64_t>(workspace_->bytes());
    shared_->own_bytes += own_bytes_;
    DI_RETURN_IF_ERROR(CheckInputs());
    return shared_->arena.Reserve(bytes);
  }

  Status Capture(const backend::StepIo& io) override {
    if (shared_->arena.data() == nullptr) {
      return MakeError(ErrorCode::kFailedPrecondition, "reference backend", "Capture before Finalize");
    }
    captured_ = false;
    list_.Clear();
    segments_.clear();
    DI_ASSIGN_OR_RETURN(const std::vector<void*> inputs, BindInputs(io));
    ReadLiveCounts(inputs);
    backend::GraphCapture capture;
    DI_RETURN_IF_ERROR(capture.Begin());
    Status recorded;
    auto record = [&](int, int) { recorded = Record(io, inputs); };
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
  Result<std::vector<void*>> BindInputs(const backend::StepIo& io) const {
    const ir::Function& entry = module_.entry();
    std::vector<void*> inputs;
    for (const ir::Input& input : entry.inputs) {
      const ir::Type& type = entry.TypeOf(input.value);
      if (input.kind == ir::InputKind::kWeight) {
        // Nothing writes weights: the verifier refuses it.
        inputs.push_back(const_cast<std::byte*>(shared_->weights.at(input.name).data));
      } else if (input.kind == ir::InputKind::kState) {
        DI_ASSIGN_OR_RETURN(void* state, backend::StateAddress(io, input, type));
        inputs.push_back(state);
      } else {
        DI_ASSIGN_OR_RETURN(void* slot, backend::MetadataAddress(io, input.name, type));
        inputs.push_back(slot);
      }
    }
    return inputs;
  }

  void ReadLiveCounts(const std::vector<void*>& inputs) {
    live_counts_ = nullptr;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (module_.live_counts != ir::kNoValue && module_.entry().inputs[i].value == module_.live_counts) {
        live_counts_ = static_cast<const int32_t*>(inputs[i]);
      }
    }
    RefreshLiveCounts();
  }

  void RefreshLiveCounts() {
    for (size_t i = 0; i < live_.count.size(); ++i) {
      live_.count[i] = live_counts_ == nullptr ? std::numeric_limits<int64_t>::max() : live_counts_[i];
    }
  }

  // The whole step, then the outputs that are not aliased states.
  Status Record(const backend::StepIo& io, const std::vector<void*>& inputs) {
    const ir::Function& entry = module_.entry();
    LaunchList open;
    DI_ASSIGN_OR_RETURN(const std::vector<void*> outputs,
                        Flatten(entry, inputs, /*split=*/mode_ == backend::GraphMode::kBreakable, &open));
    std::set<int> aliased;
    if (const auto it = module_.io_map.find(entry.name); it != module_.io_map.end()) {
      for (const ir::Alias& alias : it->second) aliased.insert(alias.output);
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (aliased.count(static_cast<int>(i)) != 0) continue;
      const ir::Type& type = entry.TypeOf(entry.outputs[i].value);
      DI_ASSIGN_OR_RETURN(void* slot, backend::OutputAddress(io, entry.outputs[i].name, type));
      open.push_back(Copy(type, outputs[i], slot));
    }
    return CloseSegment(&open);
  }

  Status CloseSegment(LaunchList* open) {
    if (open->empty()) return {};
    const LaunchList* launches = &segments_.emplace_back(std::move(*open));
    open->clear();
    return backend::GraphCapture::Current()->AddSegment(
        [this, launches] { return RunLaunches(*launches, live_, &shared_->team); });
  }

  static Launch Copy(const ir::Type& type, const void* from, void* to) {
    Launch launch;
    launch.kind = Launch::Kind::kCopy;
    launch.operands = {from};
    launch.results = {to};
    launch.extent = Extent(type);
    return launch;
  }

  // Appends the launches of a function on the given inputs; returns the addresses of its outputs.
  Result<std::vector<void*>> Flatten(const ir::Function& f, const std::vector<void*>& inputs, bool split,
                                     LaunchList* open) {
    const FunctionPlan& plan = plans_.at(f.name);
    std::vector<void*> at(f.types.size(), nullptr);
    for (size_t i = 0; i < inputs.size(); ++i) at[f.inputs[i].value] = inputs[i];
    for (size_t i = 0; i < at.size(); ++i) {
      if (plan.offset[i] >= 0) at[i] = shared_->arena.data() + plan.frame_base + plan.offset[i];
    }
    for (const auto& [value, bytes] : plan.constants) at[value] = const_cast<std::byte*>(bytes.data());
    for (size_t i = 0; i < at.size(); ++i) at[i] = at[plan.root[i]];
    for (size_t i = 0; i < f.nodes.size(); ++i) {
      const Node& node = f.nodes[i];
      if (!CalleesOf(node).empty()) {
        DI_RETURN_IF_ERROR(FlattenCall(plan, node, at, split, open));
      } else if (plan.nodes[i] != nullptr) {
        Launch launch;
        launch.node = plan.nodes[i].get();
        for (const ValueId operand : node.operands) launch.operands.push_back(at[operand]);
        for (const ValueId result : node.results) launch.results.push_back(at[result]);
        AddPadding(plan, node, at, &launch);
        open->push_back(std::move(launch));
      }
    }
    return FinishFunction(plan, at, open);
  }

  // A new content of a state that was not written in place goes to its place now: nobody reads the old one any more.
  Result<std::vector<void*>> FinishFunction(const FunctionPlan& plan, const std::vector<void*>& at,
                                            LaunchList* open) const {
    const ir::Function& f = *plan.function;
    std::vector<void*> outputs;
    for (const ir::Output& output : f.outputs) outputs.push_back(at[output.value]);
    const auto it = module_.io_map.find(f.name);
    if (it == module_.io_map.end()) return outputs;
    for (const ir::Alias& alias : it->second) {
      const ValueId value = f.outputs[alias.output].value;
      const ValueId input = f.inputs[alias.input].value;
      if (plan.root[value] == input) continue;
      if (plan.IsState(value)) {
        return MakeError(ErrorCode::kUnsupported, "output '" + f.outputs[alias.output].name + "'",
                         "one state's content becomes another's");
      }
      open->push_back(Copy(f.TypeOf(value), at[value], at[input]));
      outputs[alias.output] = at[input];
    }
    return outputs;
  }

  void AddPadding(const FunctionPlan& plan, const Node& node, const std::vector<void*>& at, Launch* launch) const {
    if (!shared_->options.poison_padding) return;
    for (const ValueId result : node.results) {
      const ir::Type& type = plan.function->TypeOf(result);
      if (plan.root[result] != result || type.LeadingTag() == ir::DimTag::kNone) continue;
      launch->padding.push_back({static_cast<std::byte*>(at[result]), Extent(type)});
    }
  }

  Status FlattenCall(const FunctionPlan& plan, const Node& node, const std::vector<void*>& at, bool split,
                     LaunchList* open) {
    std::vector<void*> operands;
    for (size_t i = FirstCallOperand(node); i < node.operands.size(); ++i) operands.push_back(at[node.operands[i]]);
    // A value that is not a state cannot be overwritten where it lies: the callee gets a copy, in the result's place.
    for (const ir::Alias& alias : AliasesOf(module_, node)) {
      const ValueId result = node.results[alias.output];
      if (at[result] == operands[alias.input]) continue;
      open->push_back(Copy(plan.function->TypeOf(result), operands[alias.input], at[result]));
      operands[alias.input] = at[result];
    }
    if (node.op == Op::kBreak && split) {
      DI_RETURN_IF_ERROR(CloseSegment(open));
      LaunchList* body = &segments_.emplace_back();
      DI_RETURN_IF_ERROR(FlattenBreak(plan, node, at, operands, body));
      return backend::EagerBreak(
          node.Str("name"), [this, body] { return RunLaunches(*body, live_, &shared_->team); }, mode_);
    }
    if (node.op == Op::kBreak) return FlattenBreak(plan, node, at, operands, open);
    if (node.op == Op::kCall) return FlattenCallee(plan, node, node.Str("callee"), at, operands, split, open);
    Launch launch;
    launch.kind = Launch::Kind::kCase;
    launch.operands = {at[node.operands[0]]};
    for (const std::string& branch : node.Strs("branches")) {
      DI_RETURN_IF_ERROR(
          FlattenCallee(plan, node, branch, at, operands, /*split=*/false, &launch.branches.emplace_back()));
    }
    open->push_back(std::move(launch));
    return {};
  }

  Status FlattenCallee(const FunctionPlan& plan, const Node& node, const std::string& callee,
                       const std::vector<void*>& at, const std::vector<void*>& operands, bool split, LaunchList* open) {
    DI_ASSIGN_OR_RETURN(const std::vector<void*> outputs, Flatten(*module_.Find(callee), operands, split, open));
    for (size_t i = 0; i < outputs.size(); ++i) {
      const ValueId result = node.results[i];
      if (at[result] == outputs[i]) continue;
      Launch copy = Copy(plan.function->TypeOf(result), outputs[i], at[result]);
      if (shared_->options.poison_padding && plan.function->TypeOf(result).LeadingTag() != ir::DimTag::kNone) {
        copy.padding.push_back({static_cast<std::byte*>(at[result]), copy.extent});
      }
      open->push_back(std::move(copy));
    }
    return {};
  }

  // The host function if there is one, else the body.
  Status FlattenBreak(const FunctionPlan& plan, const Node& node, const std::vector<void*>& at,
                      const std::vector<void*>& operands, LaunchList* open) {
    const auto host = breaks_.find(node.Str("name"));
    if (host == breaks_.end()) {
      return FlattenCallee(plan, node, node.Str("body"), at, operands, /*split=*/false, open);
    }
    Launch launch;
    launch.kind = Launch::Kind::kBreak;
    launch.function = host->second;
    launch.context = std::make_unique<backend::BreakContext>();
    for (size_t i = 0; i < operands.size(); ++i) {
      launch.context->operands.push_back({&plan.function->TypeOf(node.operands[i]), operands[i]});
    }
    for (const ValueId result : node.results) {
      launch.context->results.push_back({&plan.function->TypeOf(result), at[result]});
    }
    AddPadding(plan, node, at, &launch);
    open->push_back(std::move(launch));
    return {};
  }

  const ir::Module module_;
  const backend::GraphMode mode_;
  backend::BreakRegistry breaks_;
  Shared* shared_;
  std::shared_ptr<interp::Workspace> workspace_;
  std::map<std::string, FunctionPlan> plans_;
  std::vector<std::string> state_buffers_;
  int64_t arena_bytes_ = 0;
  int64_t own_bytes_ = 0;  // constants and workspace

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
