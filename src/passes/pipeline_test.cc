#include <set>

#include "passes/test_util.h"

namespace deepinfer::passes {
namespace {

const char kText[] = R"(module
func @step(%0: metadata "x" f32[2]) {
  %1 = call(%0) {callee = "f"} : f32[2]
  %2 = exp(%0) : f32[2]
  return "y" %1
}
func @f(%0: argument "x" f32[2]) {
  %1 = neg(%0) : f32[2]
  return "y" %1
}
)";

TEST(PipelineTest, PassesHaveDistinctNamesAndSayWhatTheyDo) {
  std::set<std::string> names;
  for (const Pass& pass : AllPasses()) {
    EXPECT_TRUE(names.insert(pass.name).second) << pass.name;
    EXPECT_NE(pass.run, nullptr);
    EXPECT_NE(std::string(pass.what), "");
  }
}

TEST(PipelineTest, RunsInOrderReportsAndTellsOnlyOfChanges) {
  ir::Module module = ParseOrDie(kText);
  std::vector<std::string> told;
  PipelineOptions options;
  options.passes = {"functionalize", "inline_calls", "dce", "cse"};
  options.after = [&](const std::string& name, const ir::Module& m) { told.push_back(name + "\n" + ir::Print(m)); };
  const auto reports = RunPipeline(&module, {}, options);
  ASSERT_TRUE(reports.has_value()) << reports.error().ToString();
  ASSERT_EQ(reports->size(), 4u);
  const bool changed[] = {false, true, true, false};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ((*reports)[i].name, options.passes[i]);
    EXPECT_EQ((*reports)[i].changed, changed[i]);
    EXPECT_GE((*reports)[i].ms, 0);
  }
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].substr(0, 13), "inline_calls\n");
  EXPECT_NE(told[0].find("func @f"), std::string::npos);
  EXPECT_EQ(told[1], R"(dce
module
func @step(%0: metadata "x" f32[2]) {
  %1 = neg(%0) : f32[2]
  return "y" %1
}
)");
}

TEST(PipelineTest, SkippedPassesDoNotRun) {
  ir::Module module = ParseOrDie(kText);
  PipelineOptions options;
  options.passes = {"inline_calls", "dce"};
  options.skip = {"dce", "never heard of"};
  const auto reports = RunPipeline(&module, {}, options);
  ASSERT_TRUE(reports.has_value());
  ASSERT_EQ(reports->size(), 1u);
  EXPECT_NE(ir::Print(module).find("func @f"), std::string::npos);
}

TEST(PipelineTest, AnUnknownNameIsAnErrorThatNamesIt) {
  ir::Module module = ParseOrDie(kText);
  PipelineOptions options;
  options.passes = {"inline_calls", "inline_all"};
  const auto reports = RunPipeline(&module, {}, options);
  ASSERT_FALSE(reports.has_value());
  EXPECT_EQ(reports.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(reports.error().message.find("'inline_all'"), std::string::npos);
}

TEST(PipelineTest, AnErrorNamesItsPass) {
  ir::Module module = ParseOrDie(R"(module
func @step(%0: metadata "c" i32[], %1: state "a" f32[4], %2: metadata "i" i32[2], %3: metadata "r" f32[2]) {
  case(%0, %1, %2, %3) {branches = ("writes", "reads")}
  return
}
func @writes(%0: state "a" f32[4], %1: argument "i" i32[2], %2: argument "r" f32[2]) {
  index_put_(%0, %1, %2) {dims = [0]}
  return
}
func @reads(%0: state "a" f32[4], %1: argument "i" i32[2], %2: argument "r" f32[2]) {
  return
}
)");
  PipelineOptions options;
  options.passes = {"functionalize"};
  const auto reports = RunPipeline(&module, {}, options);
  ASSERT_FALSE(reports.has_value());
  EXPECT_EQ(reports.error().where, "pass functionalize, case");
}

// A module that no pass makes worse, but that does not verify: the first pass that runs is named.
TEST(PipelineTest, AModuleThatDoesNotVerifyAfterAPassIsAnInternalErrorOfThatPass) {
  ir::Module module = ParseOrDie(kText);
  module.entry().outputs.push_back({"broken", 1000});
  PipelineOptions options;
  options.passes = {"functionalize"};
  const auto reports = RunPipeline(&module, {}, options);
  ASSERT_FALSE(reports.has_value());
  EXPECT_EQ(reports.error().code, ErrorCode::kInternal);
  EXPECT_EQ(reports.error().where, "after pass functionalize");
  EXPECT_NE(reports.error().message.find("'broken'"), std::string::npos) << reports.error().message;
}

}  // namespace
}  // namespace deepinfer::passes
