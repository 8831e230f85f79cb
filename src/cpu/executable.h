// A compiled step on the CPU: parts (graph segments and breaks), each a flat list of launches in groups.
//
// Launches of one group are independent; between groups the team meets at a barrier. Values live in the backend's one
// arena (placed by lifetime in groups), in the step's fixed buffers, or in states. Capture resolves every address; Run
// walks the list and allocates nothing. Where inputs come late, the team stops before the first launch that reads one.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backend/address_guard.h"
#include "backend/backend.h"
#include "backend/capture.h"
#include "base/thread_team.h"
#include "cpu/flatten.h"
#include "cpu/launch.h"
#include "cpu/weights.h"
#include "passes/memory_plan.h"

namespace deepinfer::cpu {

// Shared by all executables of a backend; sized by Finalize.
struct Arena {
  std::byte* data = nullptr;
  std::byte* scratch = nullptr;  // members * scratch_bytes
  std::byte* shared_scratch = nullptr;
  int64_t scratch_bytes = 0;  // per member
};

// What an executable needs of the arena, in bytes.
struct ArenaNeeds {
  int64_t values = 0;
  int64_t scratch = 0;  // per member
  int64_t shared_scratch = 0;

  int64_t ScratchStride() const { return (scratch + 4095) / 4096 * 4096; }  // members do not share pages
  int64_t Total(int members) const { return values + ScratchStride() * members + shared_scratch; }
};

struct PlacedLaunch {
  std::unique_ptr<Launch> launch;
  size_t node = 0;  // of the part's nodes in the step
  int group = 0;
  ir::ValueId predicate = ir::kNoValue;
  int64_t branch = 0;
  int64_t branches = 0;
  const int32_t* predicate_at = nullptr;

  // Is its branch taken in this step? Those without a predicate always run.
  bool Runs() const {
    if (predicate_at == nullptr) return true;
    const bool known = *predicate_at >= 0 && *predicate_at < branches;
    return (known ? *predicate_at : branches - 1) == branch;
  }
};

struct Part {
  bool is_break = false;
  std::string name;
  backend::BreakFunction host;  // may be empty
  std::vector<ir::ValueId> operands;
  std::vector<ir::ValueId> results;
  std::vector<PlacedLaunch> launches;
  backend::BreakContext context;     // for the host function
  std::optional<size_t> reads_late;  // the first launch that reads a late input (StepIo), since Capture
};

// Everything about one step that is decided at compile time. Made by BuildPlan (plan.h).
struct StepPlan {
  FlatStep step;
  std::vector<Part> parts;
  std::vector<passes::Lifetime> lifetimes;  // of the values in the arena
  std::vector<ir::ValueId> lifetime_of;     // by lifetime: the root value
  passes::MemoryPlan memory;
  std::map<ir::ValueId, std::string> outputs;  // root value -> name of the fixed buffer it lives in
  std::map<ir::ValueId, std::vector<uint8_t>> constants;
  ArenaNeeds needs;
  int groups = 0;
  std::set<std::string> without_kernel;  // see Launch
};

class CpuExecutable : public backend::Executable {
 public:
  CpuExecutable(StepPlan plan, ir::ValueId live_counts, backend::GraphMode mode, ThreadTeam* team, const Arena* arena,
                const Weights* weights);

  Status Capture(const backend::StepIo& io) override;
  Status Run(const backend::StepIo& io) override;
  Result<std::vector<backend::LaunchProfile>> Profile(const backend::StepIo& io) override;
  std::vector<std::string> Describe() const override;
  int64_t scratch_bytes() const override { return plan_.needs.Total(team_->members()); }
  const StepPlan& plan() const { return plan_; }
  const backend::SegmentList& segments() const { return segments_; }

 private:
  Status BindAddresses(const backend::StepIo& io);
  Result<void*> InputAddress(const ir::Input& input, const backend::StepIo& io);
  Status ReadLiveCounts();
  void FindLateReads(const backend::StepIo& io);
  void AwaitLate();
  void RunPart(const Part& part);
  void RunLaunches(const Part& part, size_t begin, size_t end);
  TeamContext ContextOf(int member, int members) const;
  Status RunBreak(Part* part);

  StepPlan plan_;
  ir::ValueId live_counts_;
  backend::GraphMode mode_;
  ThreadTeam* team_;
  const Arena* arena_;
  const Weights* weights_;
  ir::LiveCounts limits_;  // static sizes by tag; -1: the step has no such dimension
  ir::LiveCounts live_;
  const int32_t* live_at_ = nullptr;
  backend::LateInputs* late_ = nullptr;  // of this Run, until they were awaited
  Addresses addresses_{0};               // of every value, since Capture
  backend::AddressGuard guard_;
  backend::SegmentList segments_;
};

}  // namespace deepinfer::cpu
