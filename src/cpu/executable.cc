#include "cpu/executable.h"

#include <algorithm>

#include "backend/step_io.h"

namespace deepinfer::cpu {
namespace {

ir::LiveCounts StaticLimits(const ir::Function& f) {
  ir::LiveCounts limits;
  limits.count.fill(-1);
  for (const ir::Type& type : f.types) {
    for (const ir::Dim& dim : type.dims) {
      if (dim.tag == ir::DimTag::kNone) continue;
      int64_t& limit = limits.count[static_cast<size_t>(dim.tag) - 1];
      limit = std::max(limit, dim.size);
    }
  }
  return limits;
}

}  // namespace

CpuExecutable::CpuExecutable(StepPlan plan, ir::ValueId live_counts, backend::GraphMode mode, ThreadTeam* team,
                             const Arena* arena, const Weights* weights)
    : plan_(std::move(plan)),
      live_counts_(live_counts),
      mode_(mode),
      team_(team),
      arena_(arena),
      weights_(weights),
      limits_(StaticLimits(plan_.step.f)) {}

Result<void*> CpuExecutable::InputAddress(const ir::Input& input, const backend::StepIo& io) {
  const ir::Type& type = plan_.step.f.TypeOf(input.value);
  switch (input.kind) {
    case ir::InputKind::kWeight: {
      DI_ASSIGN_OR_RETURN(const std::byte* rows, weights_->Rows(input.name));
      return const_cast<std::byte*>(rows);
    }
    case ir::InputKind::kState:
      return backend::StateAddress(io, input, type);
    default:
      return backend::MetadataAddress(io, input.name, type);
  }
}

Status CpuExecutable::BindAddresses(const backend::StepIo& io) {
  const ir::Function& f = plan_.step.f;
  Addresses addresses(f.types.size());
  for (const ir::Input& input : f.inputs) {
    DI_ASSIGN_OR_RETURN(void* address, InputAddress(input, io));
    addresses.Set(input.value, address);
  }
  for (const auto& [root, name] : plan_.outputs) {
    DI_ASSIGN_OR_RETURN(void* address, backend::OutputAddress(io, name, f.TypeOf(root)));
    addresses.Set(root, address);
  }
  for (auto& [value, bytes] : plan_.constants) addresses.Set(value, bytes.data());
  for (size_t i = 0; i < plan_.lifetimes.size(); ++i) {
    addresses.Set(plan_.lifetime_of[i], arena_->data + plan_.memory.offsets[i]);
  }
  for (ir::ValueId value = 0; value < static_cast<ir::ValueId>(f.types.size()); ++value) {
    addresses.Set(value, addresses.Of(plan_.step.roots[value]));
  }
  for (Part& part : plan_.parts) {
    for (PlacedLaunch& placed : part.launches) {
      placed.launch->Bind(addresses);
      if (placed.predicate != ir::kNoValue) placed.predicate_at = addresses.As<const int32_t>(placed.predicate);
    }
    part.context = {};
    for (const ir::ValueId value : part.operands)
      part.context.operands.push_back({&f.TypeOf(value), addresses.Of(value)});
    for (const ir::ValueId value : part.results)
      part.context.results.push_back({&f.TypeOf(value), addresses.Of(value)});
  }
  live_at_ = live_counts_ == ir::kNoValue ? nullptr : addresses.As<const int32_t>(live_counts_);
  addresses_ = std::move(addresses);
  return {};
}

Status CpuExecutable::ReadLiveCounts() {
  for (int i = 0; i < ir::kNumTags; ++i) {
    const int64_t count = live_at_ == nullptr ? limits_.count[i] : live_at_[i];
    if (limits_.count[i] >= 0 && (count < 0 || count > limits_.count[i])) {
      return MakeError(ErrorCode::kInvalidArgument, "live_counts", "{} of at most {} {}", count, limits_.count[i],
                       i == 0   ? "tokens"
                       : i == 1 ? "rows"
                                : "requests");
    }
    live_.count[i] = count;
  }
  return {};
}

Status CpuExecutable::Capture(const backend::StepIo& io) {
  if (arena_->data == nullptr) {
    return MakeError(ErrorCode::kFailedPrecondition, "cpu executable", "Capture before Finalize");
  }
  segments_.Clear();
  DI_RETURN_IF_ERROR(BindAddresses(io));
  DI_RETURN_IF_ERROR(ReadLiveCounts());
  FindLateReads(io);
  backend::GraphCapture capture;
  DI_RETURN_IF_ERROR(capture.Begin());
  for (Part& part : plan_.parts) {
    if (part.is_break) {
      DI_RETURN_IF_ERROR(backend::EagerBreak(part.name, [this, &part] { return RunBreak(&part); }, mode_));
    } else {
      DI_RETURN_IF_ERROR(capture.AddSegment([this, &part] {
        RunPart(part);
        return Status();
      }));
    }
  }
  DI_ASSIGN_OR_RETURN(segments_, capture.End());
  std::vector<std::string> buffers;
  for (const ir::Input& input : plan_.step.f.inputs) {
    if (input.kind == ir::InputKind::kState) buffers.push_back(backend::BufferOf(input));
  }
  guard_.Record(io, buffers);
  return {};
}

Status CpuExecutable::Run(const backend::StepIo& io) {
  if (segments_.segments().empty()) {
    return MakeError(ErrorCode::kFailedPrecondition, "cpu executable", "Run before Capture");
  }
  DI_RETURN_IF_ERROR(guard_.CheckAddresses(io));
  DI_RETURN_IF_ERROR(ReadLiveCounts());
  late_ = io.late;
  const Status status = segments_.Replay();
  late_ = nullptr;
  return status;
}

void CpuExecutable::FindLateReads(const backend::StepIo& io) {
  std::set<ir::ValueId> late;
  for (const ir::Input& input : plan_.step.f.inputs) {
    const bool is_late = std::count(io.late_inputs.begin(), io.late_inputs.end(), input.name) > 0;
    if (input.kind == ir::InputKind::kMetadata && is_late) late.insert(plan_.step.roots[input.value]);
  }
  const auto reads_late = [&](const std::vector<ir::ValueId>& values) {
    return std::any_of(values.begin(), values.end(),
                       [&](ir::ValueId value) { return late.count(plan_.step.roots[value]) > 0; });
  };
  for (size_t p = 0; p < plan_.parts.size(); ++p) {
    Part& part = plan_.parts[p];
    part.reads_late.reset();
    if (part.host != nullptr && reads_late(part.operands)) part.reads_late = 0;
    for (size_t i = 0; i < part.launches.size() && !part.reads_late; ++i) {
      const FlatNode& flat = plan_.step.parts[p].nodes[part.launches[i].node];
      const bool chosen_late = flat.predicate != ir::kNoValue && reads_late({flat.predicate});
      if (chosen_late || reads_late(flat.node.operands)) part.reads_late = i;
    }
  }
}

void CpuExecutable::AwaitLate() {
  late_->Await();
  late_ = nullptr;
}

TeamContext CpuExecutable::ContextOf(int member, int members) const {
  TeamContext context;
  context.member = member;
  context.members = members;
  context.live = live_;
  context.scratch = arena_->scratch + member * arena_->scratch_bytes;
  context.shared_scratch = arena_->shared_scratch;
  context.team = team_;
  return context;
}

void CpuExecutable::RunPart(const Part& part) {
  size_t begin = 0;
  if (late_ != nullptr && part.reads_late) {
    begin = *part.reads_late;
    RunLaunches(part, 0, begin);
    AwaitLate();
  }
  RunLaunches(part, begin, part.launches.size());
}

void CpuExecutable::RunLaunches(const Part& part, size_t begin, size_t end) {
  if (begin == end) return;
  auto body = [&](int member, int members) {
    const TeamContext context = ContextOf(member, members);
    int group = part.launches[begin].group;
    for (size_t i = begin; i < end; ++i) {
      const PlacedLaunch& placed = part.launches[i];
      if (placed.group != group) {
        team_->Barrier();
        group = placed.group;
      }
      if (placed.Runs()) placed.launch->Run(context);
    }
  };
  team_->Run(body);
}

Status CpuExecutable::RunBreak(Part* part) {
  if (part->host == nullptr) {
    RunPart(*part);
    return {};
  }
  if (late_ != nullptr && part->reads_late) AwaitLate();
  part->context.live = live_;
  return part->host(part->context);
}

std::vector<std::string> CpuExecutable::Describe() const {
  std::vector<std::string> lines;
  for (const Part& part : plan_.parts) {
    if (part.is_break) lines.push_back(fmt::format("break {}{}", part.name, part.host != nullptr ? " (host)" : ""));
    for (const PlacedLaunch& placed : part.launches) {
      lines.push_back(fmt::format("[{}] {}{}", placed.group, placed.launch->kernel,
                                  placed.launch->reason.empty() ? "" : " (" + placed.launch->reason + ")"));
    }
  }
  return lines;
}

}  // namespace deepinfer::cpu
