#include "cpu/cpu_backend.h"

#include <algorithm>

#include "backend/cache_files.h"
#include "backend/host_states.h"
#include "cpu/kernels/linear/linear.h"
#include "cpu/kernels/peak/peak.h"
#include "cpu/lower/lower.h"
#include "cpu/plan.h"

namespace deepinfer::cpu {
namespace {

// Packed weights of every model that was ever run would fill a disk; the least recently used go first.
constexpr int64_t kMaxCacheBytes = int64_t{64} << 30;

// Where the system gave fewer threads than asked for, members have other parts than planned.
TeamPlacement PlacementOf(const CpuOptions& options, const ThreadTeam& team) {
  TeamPlacement placement = options.placement;
  if (placement.node_of.size() != static_cast<size_t>(team.members())) placement.node_of.clear();
  return placement;
}

}  // namespace

CpuBackend::CpuBackend(CpuOptions options)
    : options_(std::move(options)),
      team_(options_.threads, options_.placement.cpus),
      placement_(PlacementOf(options_, team_)),
      weights_(options_.threads, placement_) {}

CpuBackend::~CpuBackend() = default;

backend::Caps CpuBackend::caps() const {
  backend::Caps caps;
  for (int i = 0; i < kNumEncodings; ++i) caps.encodings.push_back(static_cast<Encoding>(i));
  caps.reads_rows = true;
  caps.late_inputs = true;
  return caps;
}

std::string CpuBackend::target() const {
  const std::string isa = fmt::format("cpu {}", ToString(options_.isa));
  if (options_.numerics == Numerics::kNative) return isa;
  return fmt::format("{}, numerics {}", isa, ToString(options_.numerics));
}

std::vector<std::string> CpuBackend::passes() const {
  return {"functionalize", "inline_calls", "fuse_add_norm", "fuse_glu", "fuse_rope_kv",
          "fuse_linears",  "decompose",    "constant_fold", "cse",      "dce"};
}

bool CpuBackend::Claims(const ir::Function& function, const ir::Node& node) const {
  return CanLower(function, node, options_.isa);
}

Status CpuBackend::SetWeights(backend::WeightMap weights, const std::string& identity) {
  if (!HasLinear(options_.isa, options_.numerics)) {
    return MakeError(ErrorCode::kUnsupported, "--numerics", "no kernel for numerics {} with {}",
                     ToString(options_.numerics), ToString(options_.isa));
  }
  weights_.SetSource(std::move(weights));
  if (!options_.cache_dir.empty()) {
    weights_.OpenFile(fmt::format("{}/{}.blobs", options_.cache_dir, identity), identity + " " + kPackedLinearFormat,
                      options_.verify_packed);
  }
  return {};
}

Result<std::unique_ptr<backend::StateSet>> CpuBackend::AllocateStates(
    const std::map<std::string, int64_t>& bytes_by_buffer) {
  DI_ASSIGN_OR_RETURN(std::unique_ptr<backend::StateSet> states, backend::AllocateHostStates(bytes_by_buffer));
  for (const auto& [name, bytes] : bytes_by_buffer) Place(states->Address(name), PlaceSpread(placement_, bytes));
  return states;
}

void CpuBackend::Place(void* address, const std::vector<PlacedRange>& ranges) {
  const Status placed = PlacePages(static_cast<std::byte*>(address), ranges);
  if (placed) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  placement_problem_ = placed.error().ToString();
}

// The kernels trust the graph's types: a weight of another shape would be read past its end.
Status CpuBackend::CheckWeights(const ir::Function& step) const {
  for (const ir::Input& input : step.inputs) {
    if (input.kind != ir::InputKind::kWeight) continue;
    const ir::Type& type = step.TypeOf(input.value);
    DI_ASSIGN_OR_RETURN(const backend::WeightData* weight, weights_.Source(input.name));
    const ir::Type given = ir::Type::Weight(weight->encoding, weight->shape);
    if (given.dtype != type.dtype || given.encoding != type.encoding || !SameShape(given, type)) {
      return MakeError(ErrorCode::kInvalidArgument, input.name, "is {} where the graph wants {}", ToString(given),
                       ToString(type));
    }
  }
  return {};
}

Result<std::unique_ptr<backend::Executable>> CpuBackend::Compile(const ir::Module& module,
                                                                 const backend::CompileOptions& options) {
  DI_RETURN_IF_ERROR(CheckWeights(module.entry()));
  DI_ASSIGN_OR_RETURN(FlatStep flat, Flatten(module, options));
  DI_ASSIGN_OR_RETURN(StepPlan plan,
                      BuildPlan(std::move(flat), options_.isa, options_.numerics, &weights_, team_.members()));
  DI_RETURN_IF_ERROR(CheckKernels(plan.without_kernel));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (arena_.data != nullptr && (plan.needs.values > needs_.values || plan.needs.scratch > needs_.scratch ||
                                   plan.needs.shared_scratch > needs_.shared_scratch)) {
      return MakeError(ErrorCode::kFailedPrecondition, "cpu backend",
                       "a graph compiled after Finalize needs a larger arena");
    }
    needs_.values = std::max(needs_.values, plan.needs.values);
    needs_.scratch = std::max(needs_.scratch, plan.needs.scratch);
    needs_.shared_scratch = std::max(needs_.shared_scratch, plan.needs.shared_scratch);
  }
  return std::make_unique<CpuExecutable>(std::move(plan), module.live_counts, options.mode, &team_, &arena_, &weights_);
}

Status CpuBackend::CheckKernels(const std::set<std::string>& without_kernel) {
  if (without_kernel.empty()) return {};
  if (options_.strict_kernels) {
    return MakeError(ErrorCode::kUnsupported, "--strict-kernels", "no kernel of {} takes {}", target(),
                     fmt::join(without_kernel, "; "));
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  without_kernel_.insert(without_kernel.begin(), without_kernel.end());
  return {};
}

Status CpuBackend::Finalize() {
  auto memory = std::make_unique<backend::HostStates>();
  arena_.scratch_bytes = needs_.ScratchStride();
  DI_RETURN_IF_ERROR(memory->Add("arena", needs_.values));
  DI_RETURN_IF_ERROR(memory->Add("scratch", arena_.scratch_bytes * team_.members()));
  DI_RETURN_IF_ERROR(memory->Add("shared scratch", needs_.shared_scratch));
  arena_.data = static_cast<std::byte*>(memory->Address("arena"));
  arena_.scratch = static_cast<std::byte*>(memory->Address("scratch"));
  arena_.shared_scratch = static_cast<std::byte*>(memory->Address("shared scratch"));
  Place(arena_.data, PlaceSpread(placement_, needs_.values));
  Place(arena_.scratch, PlaceByMember(placement_, arena_.scratch_bytes * team_.members(), arena_.scratch_bytes));
  Place(arena_.shared_scratch, PlaceSpread(placement_, needs_.shared_scratch));
  memory_ = std::move(memory);
  return {};
}

Status CpuBackend::Persist() {
  DI_RETURN_IF_ERROR(weights_.Persist());
  if (options_.cache_dir.empty()) return {};
  DI_RETURN_IF_ERROR(backend::PruneCache(options_.cache_dir, kMaxCacheBytes));
  return {};
}

double CpuBackend::MeasurePeakFlops() {
  return cpu::MeasurePeakFlops(options_.isa, &team_, /*rounds=*/5);
}

int64_t CpuBackend::arena_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return needs_.Total(team_.members());
}

std::vector<std::string> CpuBackend::warnings() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> lines;
  for (const std::string& op : without_kernel_) {
    lines.push_back(fmt::format("no kernel of {} takes {}: the reference kernel runs it, slowly", target(), op));
  }
  return lines;
}

std::vector<std::string> CpuBackend::notes() const {
  std::vector<std::string> lines;
  if (const std::string problem = weights_.file_problem(); !problem.empty()) {
    lines.push_back("packed weights of an earlier start are not used: " + problem);
  }
  if (!options_.placement.cpus.empty() && team_.members() > 1 && !team_.pinned()) {
    lines.push_back("the system does not let threads be pinned to their CPUs");
  }
  std::string problem = weights_.placement_problem();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (problem.empty()) problem = placement_problem_;
  if (!problem.empty()) {
    lines.push_back(
        fmt::format("the system does not place memory on nodes ({}): weights were first written near their "
                    "threads, the KV cache lies where it is first written",
                    problem));
  }
  return lines;
}

}  // namespace deepinfer::cpu
