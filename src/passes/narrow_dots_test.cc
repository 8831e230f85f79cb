#include "passes/test_util.h"

namespace deepinfer::passes {
namespace {

TEST(NarrowDotsTest, TwoWidenedOperandsAreReadAsTheyWere) {
  ExpectPass(NarrowDots, R"(module
func @step(%0: metadata "x" bf16[T:4,8], %1: weight "w" bf16[6,8]) {
  %2 = convert(%0) : f32[T:4,8]
  %3 = convert(%1) : f32[6,8]
  %4 = dot_general(%2, %3) {dtype = "f32", lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [1]} : f32[T:4,6]
  return "y" %4
}
)",
             R"(module
func @step(%0: metadata "x" bf16[T:4,8], %1: weight "w" bf16[6,8]) {
  %2 = convert(%0) : f32[T:4,8]
  %3 = convert(%1) : f32[6,8]
  %4 = dot_general(%0, %1) {dtype = "f32", lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [1]} : f32[T:4,6]
  return "y" %4
}
)");
}

// One side alone cannot be narrowed, and products of two f16 values may be summed in f16 by some.
TEST(NarrowDotsTest, AnythingElseStays) {
  ExpectUnchanged(NarrowDots, R"(module
func @step(%0: metadata "x" f32[T:4,8], %1: weight "w" bf16[6,8], %2: metadata "h" f16[T:4,8], %3: weight "v" f16[6,8]) {
  %4 = convert(%1) : f32[6,8]
  %5 = dot_general(%0, %4) {dtype = "f32", lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [1]} : f32[T:4,6]
  %6 = convert(%2) : f32[T:4,8]
  %7 = convert(%3) : f32[6,8]
  %8 = dot_general(%6, %7) {dtype = "f32", lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [1]} : f32[T:4,6]
  return "y" %5, "z" %8
}
)");
}

}  // namespace
}  // namespace deepinfer::passes
