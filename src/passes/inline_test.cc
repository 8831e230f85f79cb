#include "passes/test_util.h"

namespace deepinfer::passes {
namespace {

const char kTwoLevels[] = R"(module
func @step(%0: metadata "x" f32[2]) {
  %1 = call(%0) {callee = "outer"} : f32[2]
  %2 = break(%1) {body = "inner", name = "after"} : f32[2]
  %3 = call(%2) {callee = "inner"} : f32[2]
  return "y" %3
}
func @outer(%0: argument "x" f32[2]) {
  %1 = call(%0) {callee = "inner"} : f32[2]
  %2 = neg(%1) : f32[2]
  return "y" %2
}
func @inner(%0: argument "x" f32[2]) {
  %1 = exp(%0) : f32[2]
  return "y" %1
}
)";

TEST(InlineCallsTest, CallsOfCallsBecomeTheirBodiesAndBreaksStay) {
  ExpectPass(InlineCalls, kTwoLevels, R"(module
func @step(%0: metadata "x" f32[2]) {
  %1 = exp(%0) : f32[2]
  %2 = neg(%1) : f32[2]
  %3 = break(%2) {body = "inner", name = "after"} : f32[2]
  %4 = exp(%3) : f32[2]
  return "y" %4
}
func @outer(%0: argument "x" f32[2]) {
  %1 = exp(%0) : f32[2]
  %2 = neg(%1) : f32[2]
  return "y" %2
}
func @inner(%0: argument "x" f32[2]) {
  %1 = exp(%0) : f32[2]
  return "y" %1
}
)");
}

TEST(InlineCallsTest, StatesAndUntouchedInputsPassThrough) {
  ExpectPass(InlineCalls, R"(module
func @step(%0: state "s" f32[4], %1: metadata "i" i32[2], %2: metadata "r" f32[2]) {
  %3, %4 = call(%2, %0, %1) {callee = "put"} : f32[2], f32[4]
  %5 = add(%3, %2) : f32[2]
  return "y" %5, "s" %4
} alias 1 -> 0
func @put(%0: argument "r" f32[2], %1: state "s" f32[4], %2: argument "i" i32[2]) {
  %3 = index_put(%1, %2, %0) {dims = [0]} : f32[4]
  return "r" %0, "s" %3
} alias 1 -> 1
)",
             R"(module
func @step(%0: state "s" f32[4], %1: metadata "i" i32[2], %2: metadata "r" f32[2]) {
  %3 = index_put(%0, %1, %2) {dims = [0]} : f32[4]
  %4 = add(%2, %2) : f32[2]
  return "y" %4, "s" %3
} alias 1 -> 0
func @put(%0: argument "r" f32[2], %1: state "s" f32[4], %2: argument "i" i32[2]) {
  %3 = index_put(%1, %2, %0) {dims = [0]} : f32[4]
  return "r" %0, "s" %3
} alias 1 -> 1
)");
}

TEST(InlineBreaksTest, OnlyBreaksBecomeTheirBodies) {
  std::string after = kTwoLevels;
  const std::string from = "  %2 = break(%1) {body = \"inner\", name = \"after\"} : f32[2]\n";
  after.replace(after.find(from), from.size(), "  %2 = exp(%1) : f32[2]\n");
  ExpectPass(InlineBreaks, kTwoLevels, after);
}

TEST(BreakAfterCallsTest, EveryCallOfTheStepBecomesABreakAndNoOther) {
  std::string after = kTwoLevels;
  const std::string first = "  %1 = call(%0) {callee = \"outer\"} : f32[2]\n";
  const std::string second = "  %3 = call(%2) {callee = \"inner\"} : f32[2]\n";
  after.replace(after.find(first), first.size(), "  %1 = break(%0) {body = \"outer\", name = \"outer\"} : f32[2]\n");
  after.replace(after.find(second), second.size(), "  %3 = break(%2) {body = \"inner\", name = \"inner\"} : f32[2]\n");
  ExpectPass(BreakAfterCalls, kTwoLevels, after);
}

}  // namespace
}  // namespace deepinfer::passes
