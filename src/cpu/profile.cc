// CpuExecutable::Profile: a step whose launches run one at a time, between barriers.
#include <chrono>

#include "cpu/executable.h"
#include "cpu/work.h"

namespace deepinfer::cpu {
namespace {

using Clock = std::chrono::steady_clock;

// Rows of equal op and kernel, in order of first use.
class ProfileTable {
 public:
  void Add(const ir::Node& node, const std::string& kernel, double seconds, const Work& work) {
    const std::string op = ToString(node.op);
    const auto [at, is_new] = index_.emplace(op + " " + kernel, rows_.size());
    if (is_new) rows_.push_back({op, kernel});
    backend::LaunchProfile& row = rows_[at->second];
    ++row.launches;
    row.seconds += seconds;
    row.bytes += work.bytes;
    row.flops += work.flops;
  }
  std::vector<backend::LaunchProfile> Take() { return std::move(rows_); }

 private:
  std::map<std::string, size_t> index_;
  std::vector<backend::LaunchProfile> rows_;
};

}  // namespace

Result<std::vector<backend::LaunchProfile>> CpuExecutable::Profile(const backend::StepIo& io) {
  if (segments_.segments().empty()) {
    return MakeError(ErrorCode::kFailedPrecondition, "cpu executable", "Profile before Capture");
  }
  DI_RETURN_IF_ERROR(guard_.CheckAddresses(io));
  DI_RETURN_IF_ERROR(ReadLiveCounts());
  ProfileTable table;
  for (size_t p = 0; p < plan_.parts.size(); ++p) {
    Part& part = plan_.parts[p];
    if (part.host != nullptr) {
      DI_RETURN_IF_ERROR(RunBreak(&part));
      continue;
    }
    std::vector<double> seconds(part.launches.size());
    auto body = [&](int member, int members) {
      const TeamContext context = ContextOf(member, members);
      for (size_t i = 0; i < part.launches.size(); ++i) {
        if (!part.launches[i].Runs()) continue;
        team_->Barrier();
        const Clock::time_point start = Clock::now();
        part.launches[i].launch->Run(context);
        team_->Barrier();
        if (member == 0) seconds[i] = std::chrono::duration<double>(Clock::now() - start).count();
      }
    };
    team_->Run(body);
    for (size_t i = 0; i < part.launches.size(); ++i) {
      const PlacedLaunch& placed = part.launches[i];
      if (!placed.Runs()) continue;
      const ir::Node& node = plan_.step.parts[p].nodes[placed.node].node;
      table.Add(node, placed.launch->kernel, seconds[i], WorkOf(plan_.step, node, live_, addresses_));
    }
  }
  return table.Take();
}

}  // namespace deepinfer::cpu
