#include "passes/test_util.h"

namespace deepinfer::passes {
namespace {

TEST(ExposeCallsTest, ResultsOfCallsOfTheStepBecomeOutputs) {
  const std::string functions = R"(func @outer(%0: argument "x" f32[2]) {
  %1, %2 = call(%0) {callee = "pair"} : f32[2], f32[2]
  %3 = add(%1, %2) : f32[2]
  return "y" %3
}
func @pair(%0: argument "x" f32[2]) {
  %1 = exp(%0) : f32[2]
  %2 = neg(%0) : f32[2]
  return "a" %1, "b" %2
}
)";
  const std::string step = R"(module
func @step(%0: metadata "x" f32[2]) {
  %1 = call(%0) {callee = "outer"} : f32[2]
  %2, %3 = call(%1) {callee = "pair"} : f32[2], f32[2]
  %4 = add(%2, %3) : f32[2]
  return "y" %4)";
  ExpectPass(ExposeCalls, step + "\n}\n" + functions,
             step + ", \"call.0\" %1, \"call.1.0\" %2, \"call.1.1\" %3\n}\n" + functions);
}

TEST(ExposeCallsTest, NothingToDoWithoutCalls) {
  ExpectUnchanged(ExposeCalls, R"(module
func @step(%0: metadata "x" f32[2]) {
  %1 = exp(%0) : f32[2]
  return "y" %1
}
)");
}

}  // namespace
}  // namespace deepinfer::passes
