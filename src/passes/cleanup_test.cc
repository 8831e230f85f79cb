#include "passes/test_util.h"

namespace deepinfer::passes {
namespace {

TEST(CseTest, EqualNodesAreComputedOnceAndThenTheirReadersTooMayBeEqual) {
  ExpectPass(EliminateCommonSubexpressions,
             R"(module
func @step(%0: metadata "x" f32[2]) {
  %1 = exp(%0) : f32[2]
  %2 = exp(%0) : f32[2]
  %3 = neg(%1) : f32[2]
  %4 = neg(%2) : f32[2]
  %5 = add(%3, %4) : f32[2]
  return "y" %5, "z" %4
}
)",
             R"(module
func @step(%0: metadata "x" f32[2]) {
  %1 = exp(%0) : f32[2]
  %2 = neg(%1) : f32[2]
  %3 = add(%2, %2) : f32[2]
  return "y" %3, "z" %2
}
)");
}

TEST(CseTest, AttributesOrderTypesAndEffectsKeepNodesApart) {
  ExpectUnchanged(EliminateCommonSubexpressions, R"(module
func @step(%0: metadata "x" f32[4], %1: metadata "y" f32[4], %2: state "s" f32[4], %3: metadata "i" i32[4]) {
  %4 = sub(%0, %1) : f32[4]
  %5 = sub(%1, %0) : f32[4]
  %6 = reshape(%0) : f32[2,2]
  %7 = reshape(%0) : f32[1,4]
  %8 = cumsum(%6) {dim = 0} : f32[2,2]
  %9 = cumsum(%6) {dim = 1} : f32[2,2]
  %10 = break(%0) {body = "body", name = "b"} : f32[4]
  %11 = break(%0) {body = "body", name = "b"} : f32[4]
  %12 = take(%2, %3) : f32[4]
  %13 = index_put(%2, %3, %0) {dims = [0]} : f32[4]
  %14 = take(%13, %3) : f32[4]
  return "0" %4, "1" %5, "2" %7, "3" %8, "4" %9, "5" %10, "6" %11, "7" %12, "8" %14, "s" %13
} alias 9 -> 2
func @body(%0: argument "x" f32[4]) {
  %1 = exp(%0) : f32[4]
  return "y" %1
}
)");
}

TEST(DceTest, WhatNobodyReadsGoesWithItsFunctions) {
  ExpectPass(EliminateDeadCode,
             R"(module
func @step(%0: metadata "x" f32[2], %1: weight "unused" f32[2]) {
  %2 = exp(%0) : f32[2]
  %3 = neg(%2) : f32[2]
  %4 = call(%3) {callee = "called"} : f32[2]
  %5 = exp(%0) : f32[2]
  return "y" %5
}
func @called(%0: argument "x" f32[2]) {
  %1 = exp(%0) : f32[2]
  %2 = neg(%0) : f32[2]
  return "y" %1
}
func @uncalled(%0: state "s" f32[2]) {
  return "s" %0
} alias 0 -> 0
)",
             R"(module
func @step(%0: metadata "x" f32[2], %1: weight "unused" f32[2]) {
  %2 = exp(%0) : f32[2]
  return "y" %2
}
)");
}

// A break may have host effects, wherever it is; a mutation is one.
TEST(DceTest, EffectsStayAlsoWhereTheyAreCalled) {
  ExpectUnchanged(EliminateDeadCode, R"(module
func @step(%0: metadata "x" f32[2], %1: state "s" f32[2], %2: metadata "i" i32[2]) {
  %3 = break(%0) {body = "body", name = "b"} : f32[2]
  %4 = call(%0) {callee = "breaks"} : f32[2]
  call(%1, %2, %0) {callee = "writes"}
  return "y" %0
}
func @body(%0: argument "x" f32[2]) {
  %1 = exp(%0) : f32[2]
  return "y" %1
}
func @breaks(%0: argument "x" f32[2]) {
  %1 = break(%0) {body = "body", name = "c"} : f32[2]
  return "y" %0
}
func @writes(%0: state "s" f32[2], %1: argument "i" i32[2], %2: argument "r" f32[2]) {
  index_put_(%0, %1, %2) {dims = [0]}
  return
}
)");
}

}  // namespace
}  // namespace deepinfer::passes
