// Steps of several ranks, each on a device of its own: what each has of its own, and what they are refused for. Every
// collective in every type and grouping: tests/conformance/collectives_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "base/half.h"
#include "ir/collective.h"
#include "ir/text.h"
#include "pjrt/pjrt_backend.h"
#include "pjrt/stablehlo.h"
#include "pjrt/test_plugins.h"
#include "pjrt/test_session.h"

namespace deepinfer::pjrt {
namespace {

using Floats = std::vector<float>;

ir::Module ParseOrDie(const std::string& text) {
  auto module = ir::Parse(text);
  EXPECT_TRUE(module.has_value()) << (module ? "" : module.error().ToString());
  return module ? *std::move(module) : ir::Module{};
}

std::string OverAll(int64_t ranks) {
  std::string groups;
  for (int64_t rank = 0; rank < ranks; ++rank) groups += (rank > 0 ? ", " : "") + std::to_string(rank);
  return fmt::format("group_size = {}, groups = [{}]", ranks, groups);
}

void ExpectError(const Status& status, ErrorCode code, const std::string& text) {
  ASSERT_FALSE(status.has_value()) << text;
  EXPECT_EQ(status.error().code, code) << status.error().ToString();
  EXPECT_NE(status.error().ToString().find(text), std::string::npos) << status.error().ToString();
}

template <class T>
Status StatusOf(const Result<T>& result) {
  return result ? Status() : Status(tl::unexpected(result.error()));
}

class CollectivesTest : public PluginTest {
 protected:
  std::unique_ptr<backend::Backend> Make(int64_t ranks, const std::string& cache_dir = "") {
    auto backend = CreatePjrtBackend({.plugin = file.path, .cache_dir = cache_dir, .ranks = ranks});
    EXPECT_TRUE(backend.has_value()) << (backend ? "" : backend.error().ToString());
    return backend ? *std::move(backend) : nullptr;
  }
};

// s += x * w + rank, and y is the sum of all ranks' s.
std::string Accumulate(int64_t ranks) {
  return fmt::format(
      "module\nfunc @step(%0: state \"s\" f32[2], %1: metadata \"x\" f32[2], %2: weight \"w\" f32[2], %3: metadata "
      "\"rank\" i32[]) {{\n  %4 = mul(%1, %2) : f32[2]\n  %5 = convert(%3) : f32[]\n  %6 = broadcast_in_dim(%5) {{dims "
      "= []}} : f32[2]\n  %7 = add(%4, %6) : f32[2]\n  %8 = add(%0, %7) : f32[2]\n  %9 = all_reduce(%8) {{{}, kind = "
      "\"sum\"}} : f32[2]\n  return \"y\" %9, \"s\" %8\n}} alias 1 -> 0\n",
      OverAll(ranks));
}

TEST_P(CollectivesTest, EachRankHasItsWeightsStatesAndNumber) {
  const Floats weights[] = {{2, 3}, {5, 7}, {11, 13}, {17, 19}};
  for (const size_t ranks : {1, 2, 4}) {
    SCOPED_TRACE(ranks);
    TestSession session(Make(static_cast<int64_t>(ranks)));
    EXPECT_EQ(session.backend().caps().ranks, static_cast<int64_t>(ranks));
    session.Add("step", ParseOrDie(Accumulate(static_cast<int64_t>(ranks))));
    backend::WeightData weight{"w", Encoding::kF32, {2}, nullptr, {}};
    for (size_t rank = 0; rank < ranks; ++rank) {
      weight.shards.push_back(reinterpret_cast<const std::byte*>(weights[rank].data()));
    }
    const Status started = session.Start({{"w", weight}});
    ASSERT_TRUE(started.has_value()) << started.error().ToString();
    session.Set<int32_t>("step", "rank", {99});  // is not what the ranks get
    Floats want = {0, 0};
    const auto add = [&](const Floats& x) {
      for (size_t rank = 0; rank < ranks; ++rank) {
        for (int i = 0; i < 2; ++i) want[i] += x[i] * weights[rank][i] + static_cast<float>(rank);
      }
    };
    add({0, 0});  // the capture
    for (const float x : {1.0f, 2.0f, 2.0f}) {
      session.Set<float>("step", "x", {x, 10 * x});
      add({x, 10 * x});
      const Status run = session.Run("step");
      ASSERT_TRUE(run.has_value()) << run.error().ToString();
      EXPECT_EQ(session.Get<float>("step", "y"), want);
    }
  }
}

// x of each rank is its element of "x" widened; the result is over all.
TEST_P(CollectivesTest, SumsAreRoundedOnceAndANanWins) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    SCOPED_TRACE(ToString(dtype));
    TestSession session(Make(4));
    const std::string type = ToString(dtype);
    session.Add("step",
                ParseOrDie(fmt::format(
                    "module\nfunc @step(%0: metadata \"x\" f32[4,3], %1: metadata \"rank\" i32[]) {{\n"
                    "  %2 = constant() {{value = 0x00000000}} : i32[]\n  %3 = dynamic_slice(%0, %1, %2) {{sizes = [1, "
                    "3]}} : f32[1,3]\n  %4 = convert(%3) : {0}[1,3]\n  %5 = all_reduce(%4) {{{1}, kind = \"sum\"}} : "
                    "{0}[1,3]\n  %6 = all_reduce(%4) {{{1}, kind = \"max\"}} : {0}[1,3]\n  %7 = convert(%5) : "
                    "f32[1,3]\n  %8 = convert(%6) : f32[1,3]\n  return \"sum\" %7, \"max\" %8\n}}\n",
                    type, OverAll(4))));
    ASSERT_TRUE(session.Start());
    for (int nan_rank = 0; nan_rank < 4; ++nan_rank) {
      // Rounded at each addition, the first column's sum would stay what its first element is.
      const float big = dtype == DType::kF16 ? 2048 : 256;
      Floats x = {big, -4, 0, 1, -3, 0, 1, -2, 0, 1, -1, 0};
      x[static_cast<size_t>(nan_rank) * 3 + 2] = kNan;
      session.Set<float>("step", "x", x);
      ASSERT_TRUE(session.Run("step"));
      const Floats sum = session.Get<float>("step", "sum");
      const Floats max = session.Get<float>("step", "max");
      const float exact = big + 3;
      EXPECT_EQ(sum[0], dtype == DType::kBF16  ? BF16ToF32(F32ToBF16(exact))
                        : dtype == DType::kF16 ? F16ToF32(F32ToF16(exact))
                                               : exact);
      EXPECT_EQ(max[0], big);
      EXPECT_EQ(sum[1], -10);
      EXPECT_EQ(max[1], -1);
      EXPECT_TRUE(std::isnan(sum[2])) << sum[2] << " with the NaN on rank " << nan_rank;
      EXPECT_TRUE(std::isnan(max[2])) << max[2] << " with the NaN on rank " << nan_rank;
    }
  }
}

TEST_P(CollectivesTest, AStepWithoutCollectivesIsRunByEachRank) {
  TestSession session(Make(2));
  session.Add("step", ParseOrDie("module\nfunc @step(%0: metadata \"x\" f32[2], %1: metadata \"rank\" i32[]) {\n  %2 = "
                                 "add(%0, %0) : f32[2]\n  return \"y\" %2, \"r\" %1\n}\n"));
  const Status started = session.Start();
  ASSERT_TRUE(started.has_value()) << started.error().ToString();
  session.Set<float>("step", "x", {1, 2});
  ASSERT_TRUE(session.Run("step"));
  EXPECT_EQ(session.Get<float>("step", "y"), (Floats{2, 4}));
  EXPECT_EQ(session.Get<int32_t>("step", "r"), (std::vector<int32_t>{0}));  // outputs are the first rank's
}

TEST_P(CollectivesTest, AnotherNumberOfRanksIsRefused) {
  ExpectError(StatusOf(CreatePjrtBackend({.plugin = file.path, .ranks = 64})), ErrorCode::kInvalidArgument,
              "devices, 64 are needed");
  ExpectError(StatusOf(CreatePjrtBackend({.plugin = file.path, .ranks = 0})), ErrorCode::kInvalidArgument,
              "devices, 0 are needed");
  const std::byte bytes[8] = {};
  backend::WeightData weight{"w", Encoding::kF32, {2}, nullptr, {bytes, bytes, bytes}};
  for (const int64_t ranks : {1, 4}) {
    const auto backend = Make(ranks);
    EXPECT_NE(backend->target(), Make(2)->target());
    ExpectError(StatusOf(backend->Compile(ParseOrDie(Accumulate(2)), {})), ErrorCode::kInvalidArgument,
                fmt::format("module: the step is of 2 ranks, this backend runs {}", ranks));
    ExpectError(backend->SetWeights({{"w", weight}}, ""), ErrorCode::kInvalidArgument,
                fmt::format("weight 'w': is of 3 ranks, this backend runs {}", ranks));
  }
  TestSession session(Make(2));
  session.Add("step", ParseOrDie(Accumulate(2)));
  ASSERT_TRUE(session.Start({{"w", {"w", Encoding::kF32, {2}, bytes, {}}}}));  // the same on both
  const auto states = Make(4)->AllocateStates({{"s", 8}});
  backend::StepIo io = session.Io("step");
  io.states = states->get();
  ExpectError(session.executable("step").Capture(io), ErrorCode::kInvalidArgument, "states: are not those of 2 ranks");
}

TEST_P(CollectivesTest, ExecutablesOfSeveralRanksComeFromTheCache) {
  std::string dir = (std::filesystem::temp_directory_path() / "pjrt_ranks_XXXXXX").string();
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  const Floats w[] = {{1, 2}, {3, 4}};
  for (const char* how : {"compiled in", "from the cache"}) {
    TestSession session(Make(2, dir));
    session.Add("step", ParseOrDie(Accumulate(2)));
    backend::WeightData weight{"w", Encoding::kF32, {2}, nullptr, {}};
    for (const Floats& shard : w) weight.shards.push_back(reinterpret_cast<const std::byte*>(shard.data()));
    const Status started = session.Start({{"w", weight}});
    ASSERT_TRUE(started.has_value()) << started.error().ToString();
    const std::string description = session.executable("step").Describe()[0];
    EXPECT_NE(description.find(how), std::string::npos) << description;
    session.Set<float>("step", "x", {1, 1});
    ASSERT_TRUE(session.Run("step"));
    EXPECT_EQ(session.Get<float>("step", "y"), (Floats{1 + 3 + 2, 2 + 4 + 2}));
  }
  std::filesystem::remove_all(dir);
}

INSTANTIATE_TEST_SUITE_P(Plugins, CollectivesTest, testing::Range(0, kMaxTestPlugins));

TEST(CollectivesTextTest, RanksAreReplicasAndGroupsAreNamed) {
  const auto text = PrintStableHlo(ParseOrDie(
      "module\nfunc @step(%0: metadata \"x\" bf16[4,2]) {\n  %1 = all_reduce(%0) {group_size = 2, groups = [0, 2, 1, "
      "3], kind = \"sum\"} : bf16[4,2]\n  %2 = all_to_all(%1) {concat_dim = 1, group_size = 4, groups = [0, 1, 2, 3], "
      "split_dim = 0} : bf16[1,8]\n  return \"y\" %2\n}\n"));
  ASSERT_TRUE(text.has_value()) << text.error().ToString();
  EXPECT_EQ(
      *text,
      "module @step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 4 : i32} {\n"
      "  func.func public @main(%arg0: tensor<4x2xbf16>) -> (tensor<1x8xbf16>) {\n"
      "    %0 = \"stablehlo.convert\"(%arg0) : (tensor<4x2xbf16>) -> tensor<4x2xf32>\n"
      "    %4 = \"stablehlo.all_reduce\"(%0) <{replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>}> ({\n"
      "    ^bb0(%1: tensor<f32>, %2: tensor<f32>):\n"
      "      %3 = \"stablehlo.add\"(%1, %2) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n"
      "      \"stablehlo.return\"(%3) : (tensor<f32>) -> ()\n"
      "    }) : (tensor<4x2xf32>) -> tensor<4x2xf32>\n"
      "    %5 = \"stablehlo.convert\"(%4) : (tensor<4x2xf32>) -> tensor<4x2xbf16>\n"
      "    %6 = \"stablehlo.all_to_all\"(%5) <{concat_dimension = 1 : i64, replica_groups = dense<[[0, 1, 2, 3]]> "
      ": tensor<1x4xi64>, split_count = 4 : i64, split_dimension = 0 : i64}> : (tensor<4x2xbf16>) -> "
      "tensor<1x8xbf16>\n"
      "    \"func.return\"(%6) : (tensor<1x8xbf16>) -> ()\n"
      "  }\n}\n");
}

}  // namespace
}  // namespace deepinfer::pjrt
