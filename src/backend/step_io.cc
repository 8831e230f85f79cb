#include "backend/step_io.h"

#include "ir/text.h"

namespace deepinfer::backend {
namespace {

Result<void*> SlotAddress(const std::vector<HostSlot>& slots, const char* kind, const std::string& name,
                          const ir::Type& type) {
  for (const HostSlot& slot : slots) {
    if (slot.name != name) continue;
    if (slot.data != nullptr && slot.bytes >= type.Bytes()) return slot.data;
    return MakeError(ErrorCode::kInvalidArgument, fmt::format("{} '{}'", kind, name),
                     "has {} bytes at {} where {} needs {}", slot.bytes, slot.data, ToString(type), type.Bytes());
  }
  return MakeError(ErrorCode::kNotFound, fmt::format("{} '{}'", kind, name), "has no buffer");
}

}  // namespace

Result<void*> MetadataAddress(const StepIo& io, const std::string& name, const ir::Type& type) {
  return SlotAddress(io.metadata, "metadata", name, type);
}

Result<void*> OutputAddress(const StepIo& io, const std::string& name, const ir::Type& type) {
  return SlotAddress(io.outputs, "output", name, type);
}

Result<void*> StateAddress(const StepIo& io, const ir::Input& input, const ir::Type& type) {
  void* base = io.states == nullptr ? nullptr : io.states->Address(BufferOf(input));
  if (base == nullptr) {
    return MakeError(ErrorCode::kNotFound, "state '" + input.name + "'", "buffer '{}' is not allocated",
                     BufferOf(input));
  }
  return static_cast<std::byte*>(base) + input.offset * static_cast<int64_t>(SizeOf(type.dtype));
}

}  // namespace deepinfer::backend
