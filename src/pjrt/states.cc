#include "pjrt/states.h"

#include <vector>

namespace deepinfer::pjrt {

Result<StateSlot*> PjrtStates::Slot(const ir::Input& input, const ir::Type& type) {
  const std::string where = "state '" + input.name + "'";
  const std::string& buffer = input.buffer.empty() ? input.name : input.buffer;
  const auto key = std::make_pair(buffer, input.offset);
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
  const std::vector<std::byte> zeros(static_cast<size_t>(type.Bytes()));
  DI_ASSIGN_OR_RETURN(Buffer made, client_->Upload(zeros.data(), type, HostBytes::kDuringCall));
  StateSlot& slot = slots_[key];
  slot = {input.name, type, std::move(made)};
  return &slot;
}

}  // namespace deepinfer::pjrt
