#include "backend/host_states.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace deepinfer::backend {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;

}  // namespace

HostStates::~HostStates() {
  for (const auto& [name, region] : regions_) ::munmap(region.data, region.bytes);
}

Status HostStates::Add(const std::string& name, int64_t bytes) {
  const bool sound = bytes >= 0 && bytes <= std::numeric_limits<int64_t>::max() - kHugePage;
  const size_t size =
      sound ? static_cast<size_t>((std::max<int64_t>(bytes, 1) + kHugePage - 1) / kHugePage * kHugePage) : 0;
  void* data = sound ? ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                     : MAP_FAILED;
  if (data == MAP_FAILED) return MakeError(ErrorCode::kResourceExhausted, name, "cannot allocate {} bytes", bytes);
  if (!regions_.emplace(name, Region{data, size, bytes}).second) {
    ::munmap(data, size);
    return MakeError(ErrorCode::kInvalidArgument, name, "is there already");
  }
  if (bytes >= kHugePage) ::madvise(data, size, MADV_HUGEPAGE);
  return {};
}

void* HostStates::Address(const std::string& name) const {
  const auto it = regions_.find(name);
  return it == regions_.end() ? nullptr : it->second.data;
}

Result<std::byte*> HostStates::Part(const std::string& name, int64_t offset, int64_t bytes) const {
  const auto it = regions_.find(name);
  if (it == regions_.end()) return MakeError(ErrorCode::kNotFound, "state buffer '" + name + "'", "is not allocated");
  const int64_t size = it->second.size;
  if (offset < 0 || bytes < 0 || offset > size || bytes > size - offset) {
    return MakeError(ErrorCode::kInvalidArgument, "state buffer '" + name + "'",
                     "has no {} bytes at {}, only {} in all", bytes, offset, size);
  }
  return static_cast<std::byte*>(it->second.data) + offset;
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

Result<std::unique_ptr<StateSet>> AllocateHostStates(const std::map<std::string, int64_t>& bytes_by_buffer) {
  auto states = std::make_unique<HostStates>();
  for (const auto& [name, bytes] : bytes_by_buffer) DI_RETURN_IF_ERROR(states->Add(name, bytes));
  return states;
}

}  // namespace deepinfer::backend
