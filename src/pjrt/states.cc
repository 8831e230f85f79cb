#include "pjrt/states.h"

#include <cstdlib>
#include <memory>

namespace deepinfer::pjrt {

Result<StateSlot*> PjrtStates::Slot(const ir::Input& input, const ir::Type& type) {
  const std::string where = "state '" + input.name + "'";
  const std::string& buffer = input.buffer.empty() ? input.name : input.buffer;
  const Key key(buffer, input.offset);
  if (const auto found = slots_.find(key); found != slots_.end()) {
    StateSlot& slot = found->second;
    if (slot.type.dtype != type.dtype || !SameShape(slot.type, type)) {
      return MakeError(ErrorCode::kInvalidArgument, where, "is {} here and {} in an earlier graph", ToString(type),
                       ToString(slot.type));
    }
    return &slot;
  }
  const auto allocated = bytes_.find(buffer);
  if (allocated == bytes_.end()) return MakeError(ErrorCode::kNotFound, where, "buffer '{}' is not allocated", buffer);
  const int64_t end = input.offset * static_cast<int64_t>(SizeOf(type.dtype)) + type.Bytes();
  if (end > allocated->second) {
    return MakeError(ErrorCode::kInvalidArgument, where, "ends at byte {} of buffer '{}', which has {}", end, buffer,
                     allocated->second);
  }
  // Never-written pages are zeros that cost no memory, however large the state.
  const std::unique_ptr<void, decltype(&std::free)> zeros(std::calloc(1, static_cast<size_t>(type.Bytes()) + 1),
                                                          &std::free);
  if (zeros == nullptr) {
    return MakeError(ErrorCode::kResourceExhausted, where, "there is no memory for the zeros of {}", ToString(type));
  }
  std::vector<Buffer> buffers;
  for (size_t device = 0; device < num_devices_; ++device) {
    auto made = client_->Upload(zeros.get(), type, HostBytes::kDuringCall, device);
    if (!made) return About(where + " " + ToString(type), made.error());
    buffers.push_back(*std::move(made));
  }
  StateSlot& slot = slots_[key];
  slot = {input.name, type, std::move(buffers)};
  return &slot;
}

Result<PjrtStates::Key> PjrtStates::Find(const std::string& buffer, int64_t offset, int64_t bytes) const {
  for (const auto& [key, slot] : slots_) {
    if (key.first != buffer || key.second * static_cast<int64_t>(SizeOf(slot.type.dtype)) != offset) continue;
    if (slot.type.Bytes() == bytes) return key;
  }
  return MakeError(ErrorCode::kNotFound, "state buffer '" + buffer + "'",
                   "has no state of {} bytes at {}; a device gives whole states only", bytes, offset);
}

Status PjrtStates::Read(const std::string& buffer, int64_t offset, void* to, int64_t bytes) const {
  DI_ASSIGN_OR_RETURN(const Key key, Find(buffer, offset, bytes));
  return slots_.at(key).buffers.front().Download(to, static_cast<size_t>(bytes));
}

Status PjrtStates::Write(const std::string& buffer, int64_t offset, const void* from, int64_t bytes) {
  DI_ASSIGN_OR_RETURN(const Key key, Find(buffer, offset, bytes));
  StateSlot& slot = slots_.at(key);
  DI_ASSIGN_OR_RETURN(slot.buffers.front(), client_->Upload(from, slot.type, HostBytes::kDuringCall));
  return {};
}

}  // namespace deepinfer::pjrt
