// Every op, in every type, on every PJRT plugin, against the reference backend.
#include <gtest/gtest.h>

#include <filesystem>

#include "execute.h"
#include "pjrt/pjrt_backend.h"
#include "pjrt/test_plugins.h"
#include "reference/reference.h"

namespace deepinfer::conformance {
namespace {

using ir::Op;

// Loading a plugin takes longer than a problem, and every test may be a process of its own. A group ends where the next
// begins, in the order of ir/ops.inc.
struct Group {
  const char* name;
  Op first;
};
constexpr Group kGroups[] = {{"elementwise", Op::kNeg},       {"moves", Op::kConstant},
                             {"sums", Op::kDotGeneral},       {"indexing", Op::kTake},
                             {"collectives", Op::kAllReduce}, {"structure", Op::kIndexPutInplace},
                             {"composites", Op::kEmbedding}};

std::vector<std::string> GroupNames() {
  std::vector<std::string> names;
  for (const Group& group : kGroups) names.emplace_back(group.name);
  return names;
}

std::string GroupOf(Op op) {
  std::string name;
  for (const Group& group : kGroups) {
    if (op >= group.first) name = group.name;
  }
  return name;
}

class PjrtConformanceTest : public pjrt::PluginParamTest<std::tuple<int, std::string>> {
 protected:
  int Number() const override { return std::get<0>(GetParam()); }

  void SetUp() override {
    cache_ = testing::TempDir() + "pjrt_conformance_XXXXXX";
    ASSERT_NE(mkdtemp(cache_.data()), nullptr);
    PluginParamTest::SetUp();
  }
  void TearDown() override { std::filesystem::remove_all(cache_); }

  // Weights in any encoding but two become f32, so many problems are one module with other data: it is compiled once.
  Result<Outcome> OnPlugin(const Problem& problem) const {
    DI_ASSIGN_OR_RETURN(const auto backend, pjrt::CreatePjrtBackend({.plugin = file.path, .cache_dir = cache_}));
    return Execute(problem, backend.get());
  }

 private:
  std::string cache_;
};

Result<Outcome> OnReference(const Problem& problem) {
  const auto backend = reference::CreateReferenceBackend({});
  return Execute(problem, backend.get());
}

TEST_P(PjrtConformanceTest, AgreesWithTheReference) {
  int problems = 0;
  for (const std::string& line : AllProblems()) {
    const auto problem = ParseProblem(line);
    ASSERT_TRUE(problem.has_value()) << problem.error().ToString();
    if (GroupOf(problem->op) != std::get<1>(GetParam()) || problem->Has("denormals")) continue;
    SCOPED_TRACE(line);
    const auto got = OnPlugin(*problem);
    ++problems;
    if (problem->Has("refused")) {
      ASSERT_FALSE(got.has_value());
      const std::string error = got.error().ToString();
      EXPECT_NE(error.find("pjrt plugin '" + file.name + "' (API 0."), std::string::npos) << error;
      EXPECT_NE(error.find("nobody"), std::string::npos) << error;
      continue;
    }
    const auto want = OnReference(*problem);
    ASSERT_TRUE(want.has_value()) << want.error().ToString();
    EXPECT_EQ(got ? Difference(*want, *got, Nearness::kCompiledSlack) : got.error().ToString(), "");
  }
  EXPECT_GT(problems, 0);
}

INSTANTIATE_TEST_SUITE_P(Plugins, PjrtConformanceTest,
                         testing::Combine(testing::Range(0, pjrt::kMaxTestPlugins), testing::ValuesIn(GroupNames())),
                         [](const auto& info) {
                           return fmt::format("{}_{}", std::get<0>(info.param), std::get<1>(info.param));
                         });

}  // namespace
}  // namespace deepinfer::conformance
