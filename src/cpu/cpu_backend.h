// The CPU backend: fused kernels, one arena, a thread team, a flat launch list per graph.
//
// Kernels are chosen at compile time for the instruction set given. On a machine with several NUMA nodes packed weights
// and each thread's scratch lie near the thread that reads them, states and values are spread over the team's nodes.
// All executables share one arena, allocated by Finalize. Rows of the embedding and small vectors are read from the
// weights' own memory; everything else is packed (or mapped from the cache folder). Compile may be called from several
// threads.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "backend/backend.h"
#include "base/cpu_features.h"
#include "base/numerics.h"
#include "base/placement.h"
#include "base/thread_team.h"
#include "cpu/executable.h"
#include "cpu/weights.h"

namespace deepinfer::cpu {

struct CpuOptions {
  int threads = 1;
  Isa isa = Isa::kPortable;
  std::string cache_dir;       // where packed weights are kept between starts; empty: nowhere
  bool verify_packed = false;  // check every byte of them before use
  Numerics numerics = Numerics::kNative;
  bool strict_kernels = false;  // refuse a graph with an op on floats that only the reference kernel takes
  TeamPlacement placement;      // of the threads and of memory; default: wherever the system puts them
};

class CpuBackend : public backend::Backend {
 public:
  explicit CpuBackend(CpuOptions options);
  ~CpuBackend() override;

  const char* name() const override { return "cpu"; }
  backend::Caps caps() const override;
  std::string target() const override;
  std::vector<std::string> passes() const override;
  bool Claims(const ir::Function& function, const ir::Node& node) const override;
  Status SetWeights(backend::WeightMap weights, const std::string& identity) override;
  Result<std::unique_ptr<backend::StateSet>> AllocateStates(
      const std::map<std::string, int64_t>& bytes_by_buffer) override;
  Result<std::unique_ptr<backend::Executable>> Compile(const ir::Module& module,
                                                       const backend::CompileOptions& options) override;
  Status Finalize() override;
  Status Persist() override;
  int64_t weight_bytes() const override { return weights_.packed_bytes(); }
  double MeasurePeakFlops() override;
  int64_t arena_bytes() const override;
  std::vector<std::string> notes() const override;
  std::vector<std::string> warnings() const override;

 private:
  // Where the system refuses, memory lies where it is first written.
  void Place(void* address, const std::vector<PlacedRange>& ranges);
  Status CheckKernels(const std::set<std::string>& without_kernel);
  Status CheckWeights(const ir::Function& step) const;

  CpuOptions options_;
  ThreadTeam team_;
  const TeamPlacement placement_;  // of the team that there is
  Weights weights_;
  mutable std::mutex mutex_;  // guards the next three
  std::string placement_problem_;
  std::set<std::string> without_kernel_;
  ArenaNeeds needs_;
  Arena arena_;
  std::unique_ptr<backend::StateSet> memory_;  // the arena's own
};

}  // namespace deepinfer::cpu
