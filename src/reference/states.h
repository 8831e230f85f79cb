// The states of several ranks, each with buffers of its own: host memory, zeroed, of fixed address. What a StateSet
// shows are those of the first rank. Thread-safe to read. For src/reference only.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace deepinfer::reference {

class RankStates final : public backend::StateSet {
 public:
  // kResourceExhausted where there is no memory.
  static Result<std::unique_ptr<backend::StateSet>> Allocate(const std::map<std::string, int64_t>& bytes_by_buffer,
                                                             int64_t ranks);
  void* Address(const std::string& buffer) const override { return ranks_[0]->Address(buffer); }
  Status Read(const std::string& buffer, int64_t offset, void* to, int64_t bytes) const override {
    return ranks_[0]->Read(buffer, offset, to, bytes);
  }
  Status Write(const std::string& buffer, int64_t offset, const void* from, int64_t bytes) override {
    return ranks_[0]->Write(buffer, offset, from, bytes);
  }

  const std::vector<std::unique_ptr<backend::StateSet>>& ranks() const { return ranks_; }

 private:
  std::vector<std::unique_ptr<backend::StateSet>> ranks_;
};

// By rank; null where there are none. kInvalidArgument: they are not of so many ranks.
Result<std::vector<backend::StateSet*>> StatesByRank(backend::StateSet* states, int64_t ranks);

}  // namespace deepinfer::reference
