#include "cpu/cpu_backend.h"

#include <sys/mman.h>

#include <algorithm>

#include "backend/cache_files.h"
#include "cpu/kernels/linear/linear.h"
#include "cpu/lower/lower.h"
#include "cpu/plan.h"

namespace deepinfer::cpu {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
// Packed weights of every model that was ever run would fill a disk; the least recently used go first.
constexpr int64_t kMaxCacheBytes = int64_t{64} << 30;

// Zeroed anonymous memory, on huge pages where the system gives them: fewer TLB misses when a cache is walked.
class HostMemory : public backend::StateSet {
 public:
  ~HostMemory() override {
    for (const auto& [name, region] : regions_) ::munmap(region.data, region.bytes);
  }
  Status Allocate(const std::string& name, int64_t bytes) {
    const size_t size = static_cast<size_t>((std::max<int64_t>(bytes, 1) + kHugePage - 1) / kHugePage * kHugePage);
    void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) return MakeError(ErrorCode::kResourceExhausted, name, "cannot allocate {} bytes", bytes);
    if (bytes >= kHugePage) ::madvise(data, size, MADV_HUGEPAGE);
    regions_[name] = {data, size};
    return {};
  }
  void* Address(const std::string& buffer) const override {
    const auto it = regions_.find(buffer);
    return it == regions_.end() ? nullptr : it->second.data;
  }

 private:
  struct Region {
    void* data;
    size_t bytes;
  };
  std::map<std::string, Region> regions_;
};

int64_t Aligned(int64_t bytes) {
  return (bytes + 4095) / 4096 * 4096;
}

}  // namespace

CpuBackend::CpuBackend(CpuOptions options)
    : options_(std::move(options)), team_(options_.threads), weights_(options_.threads) {}

CpuBackend::~CpuBackend() = default;

backend::Caps CpuBackend::caps() const {
  backend::Caps caps;
  for (int i = 0; i < kNumEncodings; ++i) caps.encodings.push_back(static_cast<Encoding>(i));
  return caps;
}

std::string CpuBackend::target() const {
  return fmt::format("cpu {}", ToString(options_.isa));
}

std::vector<std::string> CpuBackend::passes() const {
  return {"functionalize", "inline_calls", "fuse_add_norm", "fuse_linears", "decompose", "constant_fold", "cse", "dce"};
}

bool CpuBackend::Claims(const ir::Function& function, const ir::Node& node) const {
  return CanLower(function, node, options_.isa);
}

Status CpuBackend::SetWeights(backend::WeightMap weights, const std::string& identity) {
  weights_.SetSource(std::move(weights));
  if (!options_.cache_dir.empty()) {
    weights_.OpenFile(fmt::format("{}/{}.blobs", options_.cache_dir, identity), identity + " " + kPackedLinearFormat);
  }
  return {};
}

Result<std::unique_ptr<backend::StateSet>> CpuBackend::AllocateStates(
    const std::map<std::string, int64_t>& bytes_by_buffer) {
  auto states = std::make_unique<HostMemory>();
  for (const auto& [name, bytes] : bytes_by_buffer) DI_RETURN_IF_ERROR(states->Allocate(name, bytes));
  return states;
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
  DI_ASSIGN_OR_RETURN(StepPlan plan, BuildPlan(std::move(flat), options_.isa, &weights_, team_.members()));
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

Status CpuBackend::Finalize() {
  auto memory = std::make_unique<HostMemory>();
  arena_.scratch_bytes = Aligned(needs_.scratch);
  DI_RETURN_IF_ERROR(memory->Allocate("arena", needs_.values));
  DI_RETURN_IF_ERROR(memory->Allocate("scratch", arena_.scratch_bytes * team_.members()));
  DI_RETURN_IF_ERROR(memory->Allocate("shared scratch", needs_.shared_scratch));
  arena_.data = static_cast<std::byte*>(memory->Address("arena"));
  arena_.scratch = static_cast<std::byte*>(memory->Address("scratch"));
  arena_.shared_scratch = static_cast<std::byte*>(memory->Address("shared scratch"));
  memory_ = std::move(memory);
  return {};
}

Status CpuBackend::Persist() {
  DI_RETURN_IF_ERROR(weights_.Persist());
  if (options_.cache_dir.empty()) return {};
  DI_RETURN_IF_ERROR(backend::PruneCache(options_.cache_dir, kMaxCacheBytes));
  return {};
}

int64_t CpuBackend::arena_bytes() const {
  return needs_.values + arena_.scratch_bytes * team_.members() + needs_.shared_scratch;
}

}  // namespace deepinfer::cpu
