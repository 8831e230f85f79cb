#include "execute.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "passes/pass.h"

namespace deepinfer::conformance {
namespace {

constexpr std::byte kSentinel{0xa5};
constexpr size_t kGuard = 64;  // bytes after each output that must stay as they are

struct Prepared {
  std::map<std::string, Bytes> outputs;  // with guards
  std::unique_ptr<backend::StateSet> states;
  std::unique_ptr<backend::Executable> executable;
  backend::StepIo io;
};

backend::WeightMap WeightsOf(const Recorder& r) {
  backend::WeightMap weights;
  for (const Tensor& w : r.weights) weights[w.name] = {w.name, w.encoding, w.type.Shape(), w.bytes.data()};
  return weights;
}

Status Prepare(const Problem& problem, Recorder* r, backend::Backend* backend, Prepared* p) {
  DI_ASSIGN_OR_RETURN(ir::Module module, r->module().Finish());
  passes::PassContext context;
  context.claims = [&](const ir::Function& f, const ir::Node& node) { return backend->Claims(f, node); };
  passes::PipelineOptions pipeline;
  pipeline.passes = backend->passes();
  pipeline.skip = {"constant_fold"};  // what is folded does not run on the backend
  DI_RETURN_IF_ERROR(passes::RunPipeline(&module, context, pipeline));
  DI_RETURN_IF_ERROR(backend->SetWeights(WeightsOf(*r), "conformance"));
  std::map<std::string, int64_t> state_bytes;
  for (const Tensor& state : r->states) state_bytes[state.name] = state.type.Bytes();
  DI_ASSIGN_OR_RETURN(p->states, backend->AllocateStates(state_bytes));
  backend::CompileOptions options;
  options.mode = problem.op == ir::Op::kBreak ? backend::GraphMode::kBreakable : backend::GraphMode::kFull;
  DI_ASSIGN_OR_RETURN(p->executable, backend->Compile(module, options));
  DI_RETURN_IF_ERROR(backend->Finalize());
  for (Tensor& m : r->metadata) {
    m.bytes.reserve(1);  // an empty one needs an address, too
    p->io.metadata.push_back({m.name, m.bytes.data(), m.type.Bytes()});
  }
  for (const Expected& e : r->outputs) {
    Bytes& bytes = p->outputs[e.name];
    bytes.assign(static_cast<size_t>(e.type.Bytes()) + kGuard, kSentinel);
    p->io.outputs.push_back({e.name, bytes.data(), e.type.Bytes()});
  }
  p->io.states = p->states.get();
  return p->executable->Capture(p->io);
}

// The best of several runs, each long enough for the clock.
Result<double> Measure(const Prepared& p) {
  double best = 1e30;
  int64_t repeat = 1;
  for (int trial = 0; trial < 20; ++trial) {
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < repeat; ++i) DI_RETURN_IF_ERROR(p.executable->Run(p.io));
    const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
    best = std::min(best, elapsed.count() / static_cast<double>(repeat));
    constexpr double kEnough = 1e6;
    if (elapsed.count() < kEnough) repeat *= 2;
  }
  return best;
}

template <class Visit>
void ForLive(const ir::Type& type, const ir::LiveCounts& live, size_t dim, int64_t offset, const Visit& visit) {
  if (dim == type.dims.size()) return visit(offset);
  const int64_t count = std::min(type.dims[dim].size, live.Of(type.dims[dim].tag, type.dims[dim].size));
  for (int64_t i = 0; i < count; ++i) ForLive(type, live, dim + 1, offset * type.dims[dim].size + i, visit);
}

// Below this the numbers of a type are equally spaced, and f32 may be flushed to zero.
double SpacingAtZero(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 0x1p-24;
    case DType::kF8E4M3:
      return 0x1p-9;
    default:
      return 0x1p-126;
  }
}

// Results that are nearly equal may round to neighbours.
bool Close(const Slack& slack, DType dtype, size_t index, float want, float got) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (want == got) return true;
  const std::vector<double>& absolute = slack.absolute;
  const double allowed = absolute.empty() ? 0 : absolute[absolute.size() == 1 ? 0 : index];
  const double size = std::fabs(static_cast<double>(want));
  return std::fabs(static_cast<double>(want) - got) <=
         allowed + std::max(size * (slack.relative + UlpOf(dtype)), SpacingAtZero(dtype));
}

bool Ignored(const Slack& slack, size_t index) {
  const std::vector<double>& absolute = slack.absolute;
  return !absolute.empty() && std::isinf(absolute[absolute.size() == 1 ? 0 : index]);
}

std::string CompareOutput(const Expected& e, const ir::LiveCounts& live, const Bytes& want, const Bytes& got,
                          Nearness nearness) {
  const size_t size = SizeOf(e.type.dtype);
  const std::vector<float> wanted = Decode(e.type.dtype, want);
  const std::vector<float> gotten = Decode(e.type.dtype, got);
  const Slack& slack = nearness == Nearness::kCompiledSlack ? e.compiled : e.slack;
  const bool exact = nearness == Nearness::kBits || slack.exact || !IsFloat(e.type.dtype);
  std::string problem;
  ForLive(e.type, live, 0, 0, [&](int64_t index) {
    const size_t i = static_cast<size_t>(index);
    if (!problem.empty() || Ignored(slack, i)) return;
    // The bits of a NaN are nobody's business.
    const bool nan = IsFloat(e.type.dtype) && std::isnan(wanted[i]) && std::isnan(gotten[i]);
    const bool same = nan || std::memcmp(&want[i * size], &got[i * size], size) == 0;
    if (same || (slack.any_zero && wanted[i] == 0 && gotten[i] == 0)) return;
    if (!exact && Close(slack, e.type.dtype, i, wanted[i], gotten[i])) return;
    problem = fmt::format("{} {}: element {} is {:.9g}, the reference has {:.9g}", e.name, ToString(e.type), i,
                          gotten[i], wanted[i]);
  });
  return problem;
}

}  // namespace

Result<Outcome> Execute(const Problem& problem, backend::Backend* backend, bool measure) {
  Recorder r(problem, backend->caps().encodings);
  DI_RETURN_IF_ERROR(Record(problem, &r));
  Prepared p;
  DI_RETURN_IF_ERROR(Prepare(problem, &r, backend, &p));
  for (const Tensor& state : r.states) {
    DI_RETURN_IF_ERROR(p.states->Write(state.name, 0, state.bytes.data(), state.type.Bytes()));
  }
  DI_RETURN_IF_ERROR(p.executable->Run(p.io));
  Outcome outcome;
  outcome.live = r.live;
  outcome.expected = r.outputs;
  outcome.launches = p.executable->Describe();
  for (auto& [name, bytes] : p.outputs) {
    const auto guard = bytes.end() - kGuard;
    if (std::any_of(guard, bytes.end(), [](std::byte b) { return b != kSentinel; })) {
      return MakeError(ErrorCode::kInternal, name, "was written past its end");
    }
    outcome.outputs[name] = Bytes(bytes.begin(), guard);
  }
  for (const Tensor& state : r.states) {
    Bytes& bytes = outcome.outputs[state.name];
    bytes.resize(state.bytes.size());
    DI_RETURN_IF_ERROR(p.states->Read(state.name, 0, bytes.data(), state.type.Bytes()));
    outcome.expected.push_back({state.name, state.type, state.slack, state.compiled});
  }
  if (measure) {
    DI_ASSIGN_OR_RETURN(outcome.ns, Measure(p));
  }
  return outcome;
}

std::string Difference(const Outcome& want, const Outcome& got, Nearness nearness) {
  for (const Expected& e : want.expected) {
    const std::string problem = CompareOutput(e, want.live, want.outputs.at(e.name), got.outputs.at(e.name), nearness);
    if (!problem.empty()) return problem;
  }
  return "";
}

}  // namespace deepinfer::conformance
