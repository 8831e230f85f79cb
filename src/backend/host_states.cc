#include "backend/host_states.h"

#include <cstring>
#include <utility>

namespace deepinfer::backend {

Status HostStates::Add(const std::string& name, int64_t bytes) {
  DI_ASSIGN_OR_RETURN(PageMemory memory, PageMemory::Allocate(name, bytes));
  if (!regions_.emplace(name, Region{std::move(memory), bytes}).second) {
    return MakeError(ErrorCode::kInvalidArgument, name, "is there already");
  }
  return {};
}

void* HostStates::Address(const std::string& name) const {
  const auto it = regions_.find(name);
  return it == regions_.end() ? nullptr : it->second.memory.data();
}

Result<std::byte*> HostStates::Part(const std::string& name, int64_t offset, int64_t bytes) const {
  const auto it = regions_.find(name);
  if (it == regions_.end()) return MakeError(ErrorCode::kNotFound, "state buffer '" + name + "'", "is not allocated");
  const int64_t size = it->second.size;
  if (offset < 0 || bytes < 0 || offset > size || bytes > size - offset) {
    return MakeError(ErrorCode::kInvalidArgument, "state buffer '" + name + "'",
                     "has no {} bytes at {}, only {} in all", bytes, offset, size);
  }
  return it->second.memory.data() + offset;
}

Status HostStates::Read(const std::string& name, int64_t offset, void* to, int64_t bytes) const {
  DI_ASSIGN_OR_RETURN(const std::byte* from, Part(name, offset, bytes));
  std::memcpy(to, from, static_cast<size_t>(bytes));
  return {};
}

Status HostStates::Write(const std::string& name, int64_t offset, const void* from, int64_t bytes) {
  DI_ASSIGN_OR_RETURN(std::byte * to, Part(name, offset, bytes));
  std::memcpy(to, from, static_cast<size_t>(bytes));
  return {};
}

void HostStates::Populate() const {
  for (const auto& [name, region] : regions_) region.memory.Populate();
}

Result<std::unique_ptr<StateSet>> AllocateHostStates(const std::map<std::string, int64_t>& bytes_by_buffer) {
  auto states = std::make_unique<HostStates>();
  for (const auto& [name, bytes] : bytes_by_buffer) DI_RETURN_IF_ERROR(states->Add(name, bytes));
  return states;
}

}  // namespace deepinfer::backend
