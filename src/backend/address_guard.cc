#include "backend/address_guard.h"

namespace deepinfer::backend {
namespace {

const void* StateAddress(const StepIo& io, const std::string& buffer) {
  return io.states == nullptr ? nullptr : io.states->Address(buffer);
}

}  // namespace

void AddressGuard::Record(std::span<const NamedAddress> addresses) {
  entries_.clear();
  num_states_ = 0;
  for (const NamedAddress& input : addresses) entries_.push_back({std::string(input.name), input.address, 0});
}

void AddressGuard::Record(const StepIo& io, const std::vector<std::string>& state_buffers) {
  entries_.clear();
  for (const HostSlot& slot : io.metadata) entries_.push_back({slot.name, slot.data, slot.bytes});
  for (const HostSlot& slot : io.outputs) entries_.push_back({slot.name, slot.data, slot.bytes});
  for (const std::string& buffer : state_buffers) entries_.push_back({buffer, StateAddress(io, buffer), 0});
  num_states_ = state_buffers.size();
}

Status AddressGuard::CheckCount(size_t count) const {
  if (count == entries_.size()) return {};
  return MakeError(ErrorCode::kFailedPrecondition, "captured graph", "has {} inputs and outputs, {} were captured",
                   count, entries_.size());
}

Status AddressGuard::CheckOne(size_t index, std::string_view name, const void* address, int64_t bytes) const {
  const Entry& entry = entries_[index];
  if (entry.name != name) {
    return MakeError(ErrorCode::kFailedPrecondition, std::string(name), "stands where {} was captured", entry.name);
  }
  if (entry.address != address) {
    return MakeError(ErrorCode::kFailedPrecondition, entry.name, "has moved from {} to {} since the graph was captured",
                     entry.address, address);
  }
  if (entry.bytes != bytes) {
    return MakeError(ErrorCode::kFailedPrecondition, entry.name, "has {} bytes, {} when the graph was captured", bytes,
                     entry.bytes);
  }
  return {};
}

Status AddressGuard::CheckAddresses(std::span<const NamedAddress> addresses) const {
  DI_RETURN_IF_ERROR(CheckCount(addresses.size()));
  for (size_t i = 0; i < addresses.size(); ++i) {
    DI_RETURN_IF_ERROR(CheckOne(i, addresses[i].name, addresses[i].address, 0));
  }
  return {};
}

Status AddressGuard::CheckAddresses(const StepIo& io) const {
  DI_RETURN_IF_ERROR(CheckCount(io.metadata.size() + io.outputs.size() + num_states_));
  size_t index = 0;
  for (const HostSlot& slot : io.metadata) DI_RETURN_IF_ERROR(CheckOne(index++, slot.name, slot.data, slot.bytes));
  for (const HostSlot& slot : io.outputs) DI_RETURN_IF_ERROR(CheckOne(index++, slot.name, slot.data, slot.bytes));
  for (; index < entries_.size(); ++index) {
    const std::string& buffer = entries_[index].name;
    DI_RETURN_IF_ERROR(CheckOne(index, buffer, StateAddress(io, buffer), 0));
  }
  return {};
}

}  // namespace deepinfer::backend
