// Collectives over several ranks, in every type and grouping, against their definitions written out here.
//
// A problem is one line, "all_to_all bf16 ranks=4 groups=0,2/1,3 t=4 n=8 split=0 concat=1 live=3": groups are ranks
// between slashes, each rank's operand is of t by n elements, and the first dimension is counted by tokens where there
// is a live count. All values are whole numbers that every type holds, so sums are exact in any order and results must
// be equal bit by bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>

#include "ir/collective.h"
#include "passes/pass.h"
#include "recorder.h"
#include "reference/reference.h"
#ifdef DI_HAVE_PJRT
#include "pjrt/pjrt_backend.h"
#include "pjrt/test_plugins.h"
#endif

namespace deepinfer::conformance {
namespace {

using ir::Op;
using ir::Type;
using ir::Value;
using Ints = std::vector<int64_t>;

// Backends that run several ranks in this process.
struct Target {
  std::string name;
  std::function<Result<std::unique_ptr<backend::Backend>>(int64_t ranks)> create;
  bool may_lack_devices = false;  // then it is skipped
  bool compiles = false;  // each problem for tens of milliseconds: all worlds in f32, one of them in the other types

  bool Takes(const Problem& p) const { return !compiles || p.dtype == DType::kF32 || p.Str("groups", "") == "0,2/1,3"; }
};

const std::vector<Target>& Targets() {
  static const std::vector<Target> kTargets = [] {
    std::vector<Target> targets = {
        {"reference", [](int64_t ranks) { return reference::CreateReferenceBackend({.threads = 2, .ranks = ranks}); }},
        {"reference_poisoned",
         [](int64_t ranks) {
           return reference::CreateReferenceBackend({.threads = 1, .poison_padding = true, .ranks = ranks});
         }},
    };
#ifdef DI_HAVE_PJRT
    int number = 0;
    for (const pjrt::PluginFile& plugin : pjrt::TestPlugins()) {
      const auto create = [plugin](int64_t ranks) {
        return pjrt::CreatePjrtBackend({.plugin = plugin.path, .ranks = ranks});
      };
      const bool fetched = number < pjrt::kFetchedTestPlugins && GetEnv("DEEPINFER_PJRT_TEST_PLUGINS").empty();
      targets.push_back({fmt::format("pjrt_plugin_{}", ++number), create, !fetched, /*compiles=*/true});
    }
#endif
    return targets;
  }();
  return kTargets;
}

std::vector<std::string> Lines() {
  const std::vector<std::string> worlds = {"ranks=2 groups=0,1",     "ranks=2 groups=1,0",     "ranks=2 groups=0/1",
                                           "ranks=4 groups=0,1/2,3", "ranks=4 groups=0,2/1,3", "ranks=4 groups=3,1/0,2",
                                           "ranks=4 groups=0,1,2,3"};
  std::vector<std::string> lines;
  for (const std::string dtype : {"f32", "bf16", "f16", "i32"}) {
    for (const std::string& world : worlds) {
      const std::string rest = " " + dtype + " " + world + " t=4 n=8";
      for (const std::string kind : {" kind=sum", " kind=max"}) {
        lines.push_back("all_reduce" + rest + kind);
        lines.push_back("all_reduce" + rest + kind + " live=3");
        lines.push_back("reduce_scatter" + rest + kind + " dim=0");
        lines.push_back("reduce_scatter" + rest + kind + " dim=1 live=3");
      }
      lines.push_back("all_gather" + rest + " dim=0");
      lines.push_back("all_gather" + rest + " dim=1 live=3");
      for (const std::string split : {" split=0", " split=1"}) {
        for (const std::string concat : {" concat=0", " concat=1"})
          lines.push_back("all_to_all" + rest + split + concat);
      }
      lines.push_back("all_to_all" + rest + " split=1 concat=1 live=0");
    }
  }
  return lines;
}

ir::ReplicaGroups GroupsOf(const Problem& p) {
  ir::ReplicaGroups groups;
  std::istringstream lists(p.Str("groups", ""));
  for (std::string list; std::getline(lists, list, '/');) {
    std::istringstream ranks(list);
    groups.group_size = 0;
    for (std::string rank; std::getline(ranks, rank, ',');) {
      groups.ranks.push_back(std::stoll(rank));
      ++groups.group_size;
    }
  }
  return groups;
}

// What collectives are made of.
struct Matrix {
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<float> values;

  Matrix(int64_t rows, int64_t cols) : rows(rows), cols(cols), values(static_cast<size_t>(rows * cols)) {}
  float& At(int64_t i, int64_t j) { return values[static_cast<size_t>(i * cols + j)]; }
  float At(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * cols + j)]; }
};

Matrix Block(const Matrix& x, int64_t dim, int64_t part, int64_t parts) {
  Matrix y(dim == 0 ? x.rows / parts : x.rows, dim == 1 ? x.cols / parts : x.cols);
  for (int64_t i = 0; i < y.rows; ++i) {
    for (int64_t j = 0; j < y.cols; ++j) {
      y.At(i, j) = dim == 0 ? x.At(part * y.rows + i, j) : x.At(i, part * y.cols + j);
    }
  }
  return y;
}

Matrix Concat(const std::vector<Matrix>& xs, int64_t dim) {
  const auto parts = static_cast<int64_t>(xs.size());
  const Matrix& x = xs[0];
  Matrix y(dim == 0 ? x.rows * parts : x.rows, dim == 1 ? x.cols * parts : x.cols);
  for (int64_t i = 0; i < y.rows; ++i) {
    for (int64_t j = 0; j < y.cols; ++j) {
      y.At(i, j) = dim == 0 ? xs[i / x.rows].At(i % x.rows, j) : xs[j / x.cols].At(i, j % x.cols);
    }
  }
  return y;
}

Matrix Combine(const std::vector<Matrix>& xs, const std::string& kind) {
  Matrix y = xs[0];
  for (size_t m = 1; m < xs.size(); ++m) {
    for (size_t i = 0; i < y.values.size(); ++i) {
      y.values[i] = kind == "sum" ? y.values[i] + xs[m].values[i] : std::max(y.values[i], xs[m].values[i]);
    }
  }
  return y;
}

Matrix ResultOf(const Problem& p, const std::vector<Matrix>& operands, int64_t rank) {
  const ir::ReplicaGroups groups = GroupsOf(p);
  const int64_t position = groups.PositionOf(rank);
  std::vector<Matrix> members;
  for (const int64_t member : groups.GroupOf(rank)) members.push_back(operands[static_cast<size_t>(member)]);
  switch (p.op) {
    case Op::kAllReduce:
      return Combine(members, p.Str("kind", ""));
    case Op::kAllGather:
      return Concat(members, p.Int("dim", 0));
    case Op::kReduceScatter:
      return Block(Combine(members, p.Str("kind", "")), p.Int("dim", 0), position, groups.group_size);
    default:
      for (Matrix& member : members) member = Block(member, p.Int("split", 0), position, groups.group_size);
      return Concat(members, p.Int("concat", 0));
  }
}

// The step of a problem and its data. Each rank's operand is x, the same for all, plus its weight, plus 3 times its
// number. Outputs come from the first rank alone, so one of them gathers the results of all.
class CollectiveStep {
 public:
  explicit CollectiveStep(const Problem& p) : p_(p), t_(p.Int("t", 4)), n_(p.Int("n", 8)), ranks_(p.Int("ranks", 1)) {
    std::mt19937 random(static_cast<uint32_t>(t_ * 31 + n_));
    const auto draw = [&] {
      std::vector<float> values(static_cast<size_t>(t_ * n_));
      for (float& value : values) value = static_cast<float>(random() % 19) - 9;
      return values;
    };
    std::vector<float> x = draw();
    for (int64_t i = p.Int("live", t_) * n_; i < t_ * n_ && IsFloat(p.dtype); ++i) x[static_cast<size_t>(i)] = NAN;
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      const std::vector<float> weight = draw();
      shards_.push_back(Encode(DType::kF32, weight));
      Matrix& operand = operands_.emplace_back(t_, n_);
      for (size_t i = 0; i < x.size(); ++i) operand.values[i] = x[i] + weight[i] + 3.0f * static_cast<float>(rank);
    }
    x_ = Encode(p.dtype, x);
    Record();
  }

  Status Execute(backend::Backend* backend) {
    DI_ASSIGN_OR_RETURN(ir::Module module, module_.Finish());
    passes::PassContext context;
    context.claims = [&](const ir::Function& f, const ir::Node& node) { return backend->Claims(f, node); };
    passes::PipelineOptions pipeline;
    pipeline.passes = backend->passes();
    DI_RETURN_IF_ERROR(passes::RunPipeline(&module, context, pipeline));
    backend::WeightData weight{"w", Encoding::kF32, {t_, n_}, nullptr, {}};
    for (const Bytes& shard : shards_) weight.shards.push_back(shard.data());
    DI_RETURN_IF_ERROR(backend->SetWeights({{"w", weight}}, "collectives"));
    DI_ASSIGN_OR_RETURN(const auto states, backend->AllocateStates({}));
    DI_ASSIGN_OR_RETURN(const auto executable, backend->Compile(module, {}));
    DI_RETURN_IF_ERROR(backend->Finalize());
    int32_t live[] = {static_cast<int32_t>(p_.Int("live", t_)), 0, 0};
    backend::StepIo io;
    io.metadata = {{"x", x_.data(), static_cast<int64_t>(x_.size())}, {"live_counts", live, sizeof(live)}};
    io.outputs = {{"own", own_.data(), static_cast<int64_t>(own_.size())},
                  {"all", all_.data(), static_cast<int64_t>(all_.size())}};
    io.states = states.get();
    DI_RETURN_IF_ERROR(executable->Capture(io));
    DI_RETURN_IF_ERROR(executable->Run(io));
    return executable->Run(io);  // the second must not find what the first left behind
  }

  // Empty, or what is wrong with the outputs.
  std::string Difference() const {
    std::string problem = Compare("own", own_, 0, ResultOf(p_, operands_, 0));
    for (int64_t rank = 0; rank < ranks_ && problem.empty(); ++rank) {
      problem = Compare("of rank " + std::to_string(rank), all_, rank, ResultOf(p_, operands_, rank));
    }
    return problem;
  }

  Bytes& all() { return all_; }

 private:
  ir::AttrMap Attributes() const {
    const ir::ReplicaGroups groups = GroupsOf(p_);
    ir::AttrMap attrs = {{"groups", groups.ranks}, {"group_size", groups.group_size}};
    if (p_.Has("kind")) attrs["kind"] = p_.Str("kind", "");
    if (p_.Has("dim")) attrs["dim"] = p_.Int("dim", 0);
    if (p_.Has("split")) attrs["split_dim"] = p_.Int("split", 0);
    if (p_.Has("concat")) attrs["concat_dim"] = p_.Int("concat", 0);
    return attrs;
  }

  void Record() {
    ir::Builder b = module_.Entry();
    const ir::DimTag tag = p_.Has("live") ? ir::DimTag::kTokens : ir::DimTag::kNone;
    if (p_.Has("live")) module_.SetLiveCounts(b.Input("live_counts", ir::InputKind::kMetadata, {DType::kI32, {3}}));
    const Value rank = b.Input(ir::kRankInput, ir::InputKind::kMetadata, Type(DType::kI32, {}));
    const Value x = b.Input("x", ir::InputKind::kMetadata, Type(p_.dtype, {ir::Dim(t_, tag), n_}));
    const Value weight = b.Input("w", ir::InputKind::kWeight, Type::Weight(Encoding::kF32, {t_, n_}));
    const Value three = b.WithScalar(Op::kMul, b.Convert(rank, p_.dtype), 3);
    const Value mine = b.Emit(Op::kAdd, {b.Convert(weight, p_.dtype), b.Broadcast(three, {t_, n_}, {})});
    const Value y = b.Emit(p_.op, {b.Emit(Op::kAdd, {x, mine})}, Attributes());
    b.Output("own", y);
    const Ints shape = b.TypeOf(y).Shape();
    const Value one = b.Reshape(y, {1, shape[0], shape[1]});
    b.Output("all", b.Emit(Op::kAllGather, {one}, ir::OverAllRanks(ranks_, {{"dim", int64_t{0}}})));
    own_.resize(static_cast<size_t>(b.TypeOf(y).Bytes()));
    all_.resize(own_.size() * static_cast<size_t>(ranks_));
  }

  // The part-th matrix of `got`, as far as it is live.
  std::string Compare(const std::string& what, const Bytes& got, int64_t part, const Matrix& want) const {
    const std::vector<float> values = Decode(p_.dtype, got);
    const int64_t live = std::min(want.rows, p_.Int("live", want.rows));
    for (int64_t i = 0; i < live * want.cols; ++i) {
      const float value = values[static_cast<size_t>(part * want.rows * want.cols + i)];
      if (value == want.values[static_cast<size_t>(i)]) continue;
      return fmt::format("{}: element [{},{}] is {}, not {}", what, i / want.cols, i % want.cols, value,
                         want.values[static_cast<size_t>(i)]);
    }
    return "";
  }

  const Problem p_;
  const int64_t t_, n_, ranks_;
  ir::ModuleBuilder module_;
  Bytes x_, own_, all_;
  std::vector<Bytes> shards_;     // of the weight, by rank
  std::vector<Matrix> operands_;  // by rank
};

class CollectivesTest : public testing::TestWithParam<std::tuple<size_t, std::string>> {};

TEST_P(CollectivesTest, AgreeWithTheirDefinitions) {
  const Target& target = Targets()[std::get<0>(GetParam())];
  int count = 0;
  for (const std::string& line : Lines()) {
    const auto problem = ParseProblem(line);
    ASSERT_TRUE(problem.has_value()) << problem.error().ToString();
    if (ToString(problem->op) != std::get<1>(GetParam()) || !target.Takes(*problem)) continue;
    SCOPED_TRACE(line);
    const auto backend = target.create(problem->Int("ranks", 1));
    if (!backend && target.may_lack_devices) GTEST_SKIP() << backend.error().ToString();
    ASSERT_TRUE(backend.has_value()) << backend.error().ToString();
    CollectiveStep step(*problem);
    const Status status = step.Execute(backend->get());
    ASSERT_TRUE(status.has_value()) << status.error().ToString();
    EXPECT_EQ(step.Difference(), "");
    ++count;
  }
  EXPECT_GT(count, 0) << "no problem of " << std::get<1>(GetParam());
}

std::string TestName(const testing::TestParamInfo<std::tuple<size_t, std::string>>& info) {
  return Targets()[std::get<0>(info.param)].name + "_" + std::get<1>(info.param);
}

INSTANTIATE_TEST_SUITE_P(Backends, CollectivesTest,
                         testing::Combine(testing::Range(size_t{0}, Targets().size()),
                                          testing::Values("all_reduce", "all_gather", "reduce_scatter", "all_to_all")),
                         TestName);

// The comparison itself must be able to fail.
TEST(CollectivesComparisonTest, AWrongElementIsFound) {
  CollectiveStep step(*ParseProblem("all_gather i32 ranks=2 groups=0,1 t=4 n=8 dim=1 live=3"));
  const auto backend = Targets()[0].create(2);
  ASSERT_TRUE(step.Execute(backend->get()));
  auto* all = reinterpret_cast<int32_t*>(step.all().data());
  all[64 + 3 * 16] += 1;  // past the live count
  EXPECT_EQ(step.Difference(), "");
  all[64 + 2 * 16 + 9] += 1;
  EXPECT_NE(step.Difference().find("of rank 1: element [2,9]"), std::string::npos);
}

}  // namespace
}  // namespace deepinfer::conformance
