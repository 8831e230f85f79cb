// A compiled step of the reference backend. For src/reference only.
//
// Capture flattens the calls into launches with fixed addresses, cut into segments at breaks; Run replays them. With
// several ranks each launch runs on all of them before the next (reference/launch.h).
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/address_guard.h"
#include "backend/backend.h"
#include "backend/capture.h"
#include "reference/launch.h"
#include "reference/plan.h"
#include "reference/reference.h"

namespace deepinfer::reference {

// The scratch of all executables: they run one at a time. Zero pages until touched.
class Arena {
 public:
  Status Reserve(int64_t bytes);  // kFailedPrecondition if it is allocated and smaller
  Status Allocate();
  std::byte* data() const { return data_; }  // null before Allocate; 64-byte aligned
  int64_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::mutex mutex_;
  int64_t bytes_ = 0;
  std::unique_ptr<void, Free> memory_;
  std::byte* data_ = nullptr;
};

// What every executable of a backend uses. The backend outlives them.
struct Shared {
  ReferenceOptions options;
  Arena arena;
  ThreadTeam team;
  ThreadTeam alone;  // gives the calling thread the team's floating point mode for a whole step
  backend::WeightMap weights;
  std::atomic<int64_t> own_bytes{0};  // constants and workspaces of all executables
  std::vector<int32_t> rank_numbers;  // what each rank reads as ir::kRankInput

  explicit Shared(const ReferenceOptions& options) : options(options), team(options.threads), alone(1) {
    for (int64_t rank = 0; rank < options.ranks; ++rank) rank_numbers.push_back(static_cast<int32_t>(rank));
  }
};

Result<std::unique_ptr<backend::Executable>> CompileReference(const ir::Module& module,
                                                              const backend::CompileOptions& options, Shared* shared);

}  // namespace deepinfer::reference
