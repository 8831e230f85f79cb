// States in host memory (base/page_memory.h): zeroed, of fixed address. A page costs memory once it is written to, so a
// large KV cache is cheap where it is not used, until Populate. Add everything first; then thread-safe to read.
// kResourceExhausted where there is no memory.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "backend/backend.h"
#include "base/error.h"
#include "base/page_memory.h"

namespace deepinfer::backend {

class HostStates final : public StateSet {
 public:
  HostStates() = default;
  HostStates(const HostStates&) = delete;
  HostStates& operator=(const HostStates&) = delete;

  // One buffer; a name may be added once.
  Status Add(const std::string& name, int64_t bytes);
  void* Address(const std::string& name) const override;
  Status Read(const std::string& name, int64_t offset, void* to, int64_t bytes) const override;
  Status Write(const std::string& name, int64_t offset, const void* from, int64_t bytes) override;
  void Populate() const override;

 private:
  Result<std::byte*> Part(const std::string& name, int64_t offset, int64_t bytes) const;

  struct Region {
    PageMemory memory;
    int64_t size = 0;  // in bytes
  };
  std::map<std::string, Region> regions_;
};

// AllocateStates of a backend whose states are host memory.
Result<std::unique_ptr<StateSet>> AllocateHostStates(const std::map<std::string, int64_t>& bytes_by_buffer);

}  // namespace deepinfer::backend
