// Remembers where the inputs of a captured graph lay, and names the first that has moved.
//
// A captured graph reads fixed addresses, so a moved buffer would silently give stale answers. Order and names count:
// the n-th input must be the one recorded n-th. Errors: kFailedPrecondition. A check that passes does not allocate.
// Thread-safe to check.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/error.h"

namespace deepinfer::backend {

struct NamedAddress {
  std::string_view name;
  const void* address = nullptr;
};

class AddressGuard {
 public:
  void Record(std::span<const NamedAddress> addresses);
  // Metadata, outputs (each with its size), then the listed state buffers.
  void Record(const StepIo& io, const std::vector<std::string>& state_buffers);

  Status CheckAddresses(std::span<const NamedAddress> addresses) const;
  Status CheckAddresses(const StepIo& io) const;  // against what Record(io, ...) saw

 private:
  struct Entry {
    std::string name;
    const void* address = nullptr;
    int64_t bytes = 0;
  };
  Status CheckCount(size_t count) const;
  Status CheckOne(size_t index, std::string_view name, const void* address, int64_t bytes) const;

  std::vector<Entry> entries_;
  size_t num_states_ = 0;  // the last entries
};

}  // namespace deepinfer::backend
