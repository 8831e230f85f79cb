#include "pjrt/executable.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "backend/step_io.h"
#include "ir/collective.h"
#include "pjrt/launch.h"

namespace deepinfer::pjrt {
namespace {

// An input that the host writes before a step, and what the devices have of it.
struct Metadata {
  size_t argument = 0;
  DType dtype = DType::kF32;
  std::vector<int64_t> dims;
  const void* host = nullptr;
  std::vector<std::byte> sent;
  std::vector<Buffer> buffers;  // by device; none: nothing was sent
};

struct State {
  size_t argument = 0;
  int output = -1;  // that replaces it, if it is mutated
  StateSlot* slot = nullptr;
};

// A result that goes to the host, from the first device.
struct HostResult {
  size_t output = 0;
  void* host = nullptr;
  size_t bytes = 0;
  Buffer buffer;  // of the newest step
};

// Adds the time since the last lap to what the step has spent it on.
class StepClock {
 public:
  void Lap(double* spent_us) {
    const Clock::time_point now = Clock::now();
    *spent_us += std::chrono::duration<double, std::micro>(now - last_).count();
    last_ = now;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
};

class PjrtExecutable final : public TimedExecutable {
 public:
  PjrtExecutable(std::shared_ptr<const Client> client, size_t num_devices, Binding binding, LoadedExecutable executable,
                 std::string description)
      : client_(std::move(client)),
        binding_(std::move(binding)),
        executable_(std::move(executable)),
        description_(std::move(description)),
        launch_(client_, executable_, num_devices, binding_.arguments.size()) {}

  Status Capture(const backend::StepIo& io) override {
    captured_ = false;
    DI_RETURN_IF_ERROR(Bind(io));
    guard_.Record(io, {});
    DI_RETURN_IF_ERROR(Step(io));
    captured_ = true;
    return {};
  }

  Status Run(const backend::StepIo& io) override {
    if (!captured_) return MakeError(ErrorCode::kFailedPrecondition, "pjrt backend", "Run before Capture");
    return Step(io);
  }

  std::vector<std::string> Describe() const override { return {description_}; }
  int64_t scratch_bytes() const override { return executable_.temp_bytes(); }
  StepTimes times() const override { return times_; }

 private:
  Status Bind(const backend::StepIo& io) {
    auto* states = dynamic_cast<PjrtStates*>(io.states);
    state_set_ = io.states;
    metadata_.clear();
    states_.clear();
    host_results_.clear();
    if (states != nullptr && states->num_devices() != launch_.num_devices()) {
      return MakeError(ErrorCode::kInvalidArgument, "states", "are not those of {} ranks", launch_.num_devices());
    }
    for (size_t i = 0; i < binding_.arguments.size(); ++i) {
      const Binding::Argument& argument = binding_.arguments[i];
      if (argument.input.kind == ir::InputKind::kMetadata) {
        DI_RETURN_IF_ERROR(BindMetadata(io, i));
      } else if (argument.input.kind == ir::InputKind::kState) {
        if (states == nullptr) {
          return MakeError(ErrorCode::kInvalidArgument, "state '" + argument.input.name + "'",
                           "the states were not allocated by this backend");
        }
        DI_ASSIGN_OR_RETURN(StateSlot* const slot, states->Slot(argument.input, argument.type));
        states_.push_back({i, argument.output, slot});
      } else {
        for (size_t device = 0; device < launch_.num_devices(); ++device) {
          launch_.SetArgument(device, i, argument.weights[device]);
        }
      }
    }
    for (size_t i = 0; i < binding_.results.size(); ++i) {
      const Binding::Result& result = binding_.results[i];
      if (result.is_state) continue;
      DI_ASSIGN_OR_RETURN(void* const host, backend::OutputAddress(io, result.name, result.type));
      host_results_.push_back({i, host, static_cast<size_t>(result.type.Bytes()), {}});
    }
    copies_.reserve(host_results_.size());
    retired_.reserve(states_.size() * launch_.num_devices());
    return {};
  }

  Status BindMetadata(const backend::StepIo& io, size_t index) {
    const Binding::Argument& argument = binding_.arguments[index];
    if (argument.input.name == ir::kRankInput && argument.type == ir::Type(DType::kI32, {})) return BindRank(index);
    DI_ASSIGN_OR_RETURN(const void* host, backend::MetadataAddress(io, argument.input.name, argument.type));
    metadata_.push_back({index, argument.type.dtype, argument.type.Shape(), host, {}, {}});
    metadata_.back().sent.resize(static_cast<size_t>(argument.type.Bytes()));
    return {};
  }

  // What tells the ranks apart; it never changes.
  Status BindRank(size_t argument) {
    for (size_t device = ranks_.size(); device < launch_.num_devices(); ++device) {
      const auto rank = static_cast<int32_t>(device);
      DI_ASSIGN_OR_RETURN(Buffer buffer,
                          client_->Upload(&rank, ir::Type(DType::kI32, {}), HostBytes::kDuringCall, device));
      ranks_.push_back(std::move(buffer));
    }
    for (size_t device = 0; device < ranks_.size(); ++device) {
      launch_.SetArgument(device, argument, ranks_[device].get());
    }
    return {};
  }

  Status Step(const backend::StepIo& io) {
    StepClock clock;
    if (captured_) DI_RETURN_IF_ERROR(CheckSame(io));
    for (Metadata& metadata : metadata_) DI_RETURN_IF_ERROR(Send(&metadata));
    for (const State& state : states_) {
      for (size_t device = 0; device < launch_.num_devices(); ++device) {
        launch_.SetArgument(device, state.argument, state.slot->buffers[device].get());
      }
    }
    clock.Lap(&times_.before_us);
    DI_RETURN_IF_ERROR(launch_.Start());
    clock.Lap(&times_.call_us);
    retired_.clear();
    Status status = StartCopies();
    if (const Status kept = KeepStates(); status && !kept) status = kept;
    clock.Lap(&times_.during_us);
    // Everything is awaited, whatever failed.
    if (const Status done = launch_.Wait(); status && !done) status = done;
    clock.Lap(&times_.wait_us);
    for (PJRT_Event* copy : copies_) {
      const Status done = client_->plugin().Await(copy, "PJRT_Buffer_ToHostBuffer");
      if (status && !done) status = done;
    }
    clock.Lap(&times_.after_us);
    ++times_.steps;
    return status;
  }

  Status CheckSame(const backend::StepIo& io) const {
    DI_RETURN_IF_ERROR(guard_.CheckAddresses(io));
    if (io.states == state_set_) return {};
    return MakeError(ErrorCode::kFailedPrecondition, "states", "are not those of the captured graph");
  }

  // Sends what changed since the last step: most of the metadata of a decode step stays as it is.
  Status Send(Metadata* metadata) {
    if (!metadata->buffers.empty() && std::memcmp(metadata->sent.data(), metadata->host, metadata->sent.size()) == 0) {
      return {};
    }
    std::memcpy(metadata->sent.data(), metadata->host, metadata->sent.size());
    metadata->buffers.resize(launch_.num_devices());
    for (size_t device = 0; device < launch_.num_devices(); ++device) {
      Buffer& buffer = metadata->buffers[device];
      DI_ASSIGN_OR_RETURN(buffer, client_->Upload(metadata->sent.data(), metadata->dtype, metadata->dims,
                                                  HostBytes::kDuringCall, device));
      launch_.SetArgument(device, metadata->argument, buffer.get());
    }
    return {};
  }

  // Whether a plugin donates is settled when it compiles: looking once is enough.
  Status KeepStates() {
    Status status;
    for (const State& state : states_) {
      if (state.output < 0) continue;
      for (size_t device = 0; device < launch_.num_devices(); ++device) {
        Buffer& buffer = state.slot->buffers[device];
        retired_.push_back(std::exchange(buffer, launch_.TakeResult(device, static_cast<size_t>(state.output))));
        if (captured_ || !status) continue;
        status = CheckDonated(retired_.back(), binding_.arguments[state.argument].input.name);
      }
    }
    return status;
  }

  Status CheckDonated(const Buffer& state, const std::string& name) const {
    DI_ASSIGN_OR_RETURN(const bool deleted, state.IsDeleted());
    if (deleted) return {};
    return MakeError(ErrorCode::kUnsupported, client_->plugin().Label(),
                     "did not donate state '{}' although the module aliases it", name);
  }

  Status StartCopies() {
    copies_.clear();
    for (HostResult& result : host_results_) {
      result.buffer = launch_.TakeResult(/*device=*/0, result.output);
      DI_ASSIGN_OR_RETURN(PJRT_Event* const copy, result.buffer.StartDownload(result.host, result.bytes));
      copies_.push_back(copy);
    }
    return {};
  }

  const std::shared_ptr<const Client> client_;
  const Binding binding_;
  const LoadedExecutable executable_;
  const std::string description_;
  StepTimes times_;

  // Set by Capture.
  bool captured_ = false;
  backend::StateSet* state_set_ = nullptr;
  backend::AddressGuard guard_;
  std::vector<Buffer> ranks_;  // by device: its number, if the step asks for it
  std::vector<Metadata> metadata_;
  std::vector<State> states_;
  std::vector<HostResult> host_results_;
  std::vector<PJRT_Event*> copies_;  // to the host, under way
  std::vector<Buffer> retired_;      // handles of states that were donated to the newest step
  Launch launch_;                    // the last: it waits for a step that failed half way
};

}  // namespace

Result<std::unique_ptr<backend::Executable>> MakePjrtExecutable(std::shared_ptr<const Client> client,
                                                                size_t num_devices, Binding binding,
                                                                LoadedExecutable executable, std::string description) {
  if (executable.num_outputs() != binding.results.size()) {
    return MakeError(ErrorCode::kInternal, client->plugin().Label(),
                     "made an executable with {} outputs from a step with {}", executable.num_outputs(),
                     binding.results.size());
  }
  return std::make_unique<PjrtExecutable>(std::move(client), num_devices, std::move(binding), std::move(executable),
                                          std::move(description));
}

}  // namespace deepinfer::pjrt
