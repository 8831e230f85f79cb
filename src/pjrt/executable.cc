#include "pjrt/executable.h"

#include <chrono>
#include <cstring>
#include <utility>

namespace deepinfer::pjrt {
namespace {

Result<void*> FindSlot(const std::vector<backend::HostSlot>& slots, const std::string& name, const char* kind,
                       const ir::Type& type) {
  for (const backend::HostSlot& slot : slots) {
    if (slot.name != name) continue;
    if (slot.data != nullptr && slot.bytes >= type.Bytes()) return slot.data;
    return MakeError(ErrorCode::kInvalidArgument, fmt::format("{} '{}'", kind, name), "has {} bytes at {} for {}",
                     slot.bytes, slot.data, ToString(type));
  }
  return MakeError(ErrorCode::kNotFound, fmt::format("{} '{}'", kind, name), "has no buffer");
}

using Clock = std::chrono::steady_clock;

struct Uploaded {
  std::vector<std::byte> bytes;
  Buffer buffer;
};

class PjrtExecutable final : public TimedExecutable {
 public:
  PjrtExecutable(std::shared_ptr<const Client> client, Binding binding, LoadedExecutable executable,
                 std::string description)
      : client_(std::move(client)),
        binding_(std::move(binding)),
        executable_(std::move(executable)),
        description_(std::move(description)) {}

  Status Capture(const backend::StepIo& io) override {
    captured_ = false;
    DI_RETURN_IF_ERROR(Bind(io));
    guard_.Record(io, {});
    DI_RETURN_IF_ERROR(Step());
    captured_ = true;
    return {};
  }

  Status Run(const backend::StepIo& io) override {
    if (!captured_) return MakeError(ErrorCode::kFailedPrecondition, "pjrt backend", "Run before Capture");
    DI_RETURN_IF_ERROR(guard_.CheckAddresses(io));
    if (io.states != states_) {
      return MakeError(ErrorCode::kFailedPrecondition, "states", "are not those of the captured graph");
    }
    return Step();
  }

  std::vector<std::string> Describe() const override { return {description_}; }
  int64_t scratch_bytes() const override { return executable_.temp_bytes(); }
  StepTimes times() const override { return times_; }

 private:
  Status Bind(const backend::StepIo& io) {
    auto* states = dynamic_cast<PjrtStates*>(io.states);
    states_ = io.states;
    hosts_.assign(binding_.arguments.size(), nullptr);
    slots_.assign(binding_.arguments.size(), nullptr);
    outputs_.assign(binding_.results.size(), nullptr);
    uploads_.clear();
    uploads_.resize(binding_.arguments.size());
    for (size_t i = 0; i < binding_.arguments.size(); ++i) {
      const Binding::Argument& argument = binding_.arguments[i];
      if (argument.input.kind == ir::InputKind::kMetadata) {
        DI_ASSIGN_OR_RETURN(hosts_[i], FindSlot(io.metadata, argument.input.name, "metadata", argument.type));
      } else if (argument.input.kind == ir::InputKind::kState) {
        if (states == nullptr) {
          return MakeError(ErrorCode::kInvalidArgument, "state '" + argument.input.name + "'",
                           "the states were not allocated by this backend");
        }
        DI_ASSIGN_OR_RETURN(slots_[i], states->Slot(argument.input, argument.type));
      }
    }
    for (size_t i = 0; i < binding_.results.size(); ++i) {
      const Binding::Result& result = binding_.results[i];
      if (result.is_state) continue;
      DI_ASSIGN_OR_RETURN(outputs_[i], FindSlot(io.outputs, result.name, "output", result.type));
    }
    return {};
  }

  Status Step() {
    const Clock::time_point start = Clock::now();
    std::vector<PJRT_Buffer*> arguments(binding_.arguments.size());
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (hosts_[i] != nullptr) {
        DI_RETURN_IF_ERROR(Refresh(binding_.arguments[i].type, hosts_[i], &uploads_[i]));
        arguments[i] = uploads_[i].buffer.get();
      } else {
        arguments[i] = slots_[i] != nullptr ? slots_[i]->buffer.get() : binding_.arguments[i].weight;
      }
    }
    const Clock::time_point ready = Clock::now();
    DI_ASSIGN_OR_RETURN(std::vector<Buffer> results, executable_.Execute(arguments));
    const Clock::time_point done = Clock::now();
    DI_RETURN_IF_ERROR(ReplaceStates(&results));
    DI_RETURN_IF_ERROR(Download(results));
    using Microseconds = std::chrono::duration<double, std::micro>;
    ++times_.steps;
    times_.execute_us += Microseconds(done - ready).count();
    times_.host_us += Microseconds(ready - start + (Clock::now() - done)).count();
    return {};
  }

  // Sends what changed since the last step: most of the metadata of a decode step stays as it is.
  Status Refresh(const ir::Type& type, const void* host, Uploaded* upload) const {
    const size_t bytes = static_cast<size_t>(type.Bytes());
    if (upload->buffer.valid() && std::memcmp(upload->bytes.data(), host, bytes) == 0) return {};
    upload->bytes.resize(bytes);
    std::memcpy(upload->bytes.data(), host, bytes);
    DI_ASSIGN_OR_RETURN(upload->buffer, client_->Upload(host, type, HostBytes::kDuringCall));
    return {};
  }

  // All copies run at the same time; every event is awaited, whatever failed.
  Status Download(const std::vector<Buffer>& results) const {
    Status status;
    std::vector<PJRT_Event*> events;
    for (size_t i = 0; i < results.size() && status; ++i) {
      if (outputs_[i] == nullptr) continue;
      const auto event = results[i].StartDownload(outputs_[i], static_cast<size_t>(binding_.results[i].type.Bytes()));
      if (event) events.push_back(*event);
      if (!event) status = tl::unexpected(event.error());
    }
    for (PJRT_Event* event : events) {
      const Status done = client_->plugin().Await(event, "PJRT_Buffer_ToHostBuffer");
      if (status && !done) status = done;
    }
    return status;
  }

  Status ReplaceStates(std::vector<Buffer>* results) {
    for (size_t i = 0; i < slots_.size(); ++i) {
      const int output = binding_.arguments[i].output;
      if (slots_[i] == nullptr || output < 0) continue;
      Buffer old = std::exchange(slots_[i]->buffer, std::move((*results)[static_cast<size_t>(output)]));
      if (captured_) continue;  // whether a plugin donates is settled when it compiles: looking once is enough
      DI_ASSIGN_OR_RETURN(const bool deleted, old.IsDeleted());
      if (!deleted) {
        return MakeError(ErrorCode::kUnsupported, client_->plugin().Label(),
                         "did not donate state '{}' although the module aliases it", binding_.arguments[i].input.name);
      }
    }
    return {};
  }

  const std::shared_ptr<const Client> client_;
  const Binding binding_;
  const LoadedExecutable executable_;
  const std::string description_;
  StepTimes times_;

  // Set by Capture, by argument or by result.
  bool captured_ = false;
  backend::StateSet* states_ = nullptr;
  std::vector<const void*> hosts_;
  std::vector<StateSlot*> slots_;
  std::vector<void*> outputs_;
  std::vector<Uploaded> uploads_;
  backend::AddressGuard guard_;
};

}  // namespace

Result<std::unique_ptr<backend::Executable>> MakePjrtExecutable(std::shared_ptr<const Client> client, Binding binding,
                                                                LoadedExecutable executable, std::string description) {
  if (executable.num_outputs() != binding.results.size()) {
    return MakeError(ErrorCode::kInternal, client->plugin().Label(),
                     "made an executable with {} outputs from a step with {}", executable.num_outputs(),
                     binding.results.size());
  }
  return std::make_unique<PjrtExecutable>(std::move(client), std::move(binding), std::move(executable),
                                          std::move(description));
}

}  // namespace deepinfer::pjrt
