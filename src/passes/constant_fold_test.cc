#include "passes/test_util.h"

namespace deepinfer::passes {
namespace {

TEST(ConstantFoldTest, ChainsBecomeOneValue) {
  // (2 + 3) * 4 = 20 = 0x41a00000; cumsum of [1, 1, 1] = [1, 2, 3].
  ExpectPass(ConstantFold,
             R"(module
func @step(%0: metadata "x" f32[3]) {
  %1 = constant() {value = 0x00000040} : f32[3]
  %2 = constant() {value = 0x00004040} : f32[3]
  %3 = add(%1, %2) : f32[3]
  %4 = constant() {value = 0x00008040} : f32[3]
  %5 = mul(%3, %4) : f32[3]
  %6 = constant() {value = 0x01000000} : i32[3]
  %7 = cumsum(%6) {dim = 0} : i32[3]
  %8 = mul(%0, %5) : f32[3]
  return "y" %8, "z" %7
}
)",
             R"(module
func @step(%0: metadata "x" f32[3]) {
  %1 = constant() {value = 0x00000040} : f32[3]
  %2 = constant() {value = 0x00004040} : f32[3]
  %3 = constant() {value = 0x0000a040} : f32[3]
  %4 = constant() {value = 0x00008040} : f32[3]
  %5 = constant() {value = 0x0000a041} : f32[3]
  %6 = constant() {value = 0x01000000} : i32[3]
  %7 = constant() {value = 0x010000000200000003000000} : i32[3]
  %8 = mul(%0, %5) : f32[3]
  return "y" %8, "z" %7
}
)");
}

// 4097 elements of f32 are 16388 bytes, over the cap; a splat of any size stays one element.
TEST(ConstantFoldTest, LargeResultsStayNodesUnlessTheyAreSplats) {
  ExpectPass(ConstantFold,
             R"(module
func @step() {
  %0 = constant() {value = 0x00000040} : f32[]
  %1 = broadcast_in_dim(%0) {dims = []} : f32[T:4097,64]
  %2 = constant() {value = 0x00000040} : f32[4097]
  %3 = neg(%2) : f32[4097]
  %4 = reshape(%2) : f32[17,241]
  %5 = constant() {value = 0x0000004000004040} : f32[2]
  %6 = broadcast_in_dim(%5) {dims = [1]} : f32[4097,2]
  %7 = broadcast_in_dim(%5) {dims = [1]} : f32[2,2]
  return "0" %1, "1" %3, "2" %4, "3" %6, "4" %7
}
)",
             R"(module
func @step() {
  %0 = constant() {value = 0x00000040} : f32[]
  %1 = constant() {value = 0x00000040} : f32[T:4097,64]
  %2 = constant() {value = 0x00000040} : f32[4097]
  %3 = neg(%2) : f32[4097]
  %4 = constant() {value = 0x00000040} : f32[17,241]
  %5 = constant() {value = 0x0000004000004040} : f32[2]
  %6 = broadcast_in_dim(%5) {dims = [1]} : f32[4097,2]
  %7 = constant() {value = 0x00000040000040400000004000004040} : f32[2,2]
  return "0" %1, "1" %3, "2" %4, "3" %6, "4" %7
}
)");
}

// A counted dimension is folded whole: its live count is not known here.
TEST(ConstantFoldTest, CountedDimensionsAreFoldedWhole) {
  ExpectPass(ConstantFold,
             R"(module
func @step() {
  %0 = constant() {value = 0x0100000002000000} : i32[T:2]
  %1 = neg(%0) : i32[T:2]
  %2 = reduce(%0) {dims = [0], kind = "sum"} : i32[]
  return "0" %1, "1" %2
}
)",
             R"(module
func @step() {
  %0 = constant() {value = 0x0100000002000000} : i32[T:2]
  %1 = constant() {value = 0xfffffffffeffffff} : i32[T:2]
  %2 = constant() {value = 0x03000000} : i32[]
  return "0" %1, "1" %2
}
)");
}

TEST(ConstantFoldTest, InputsIotasAndNodesWithSeveralResultsStay) {
  ExpectUnchanged(ConstantFold, R"(module
func @step(%0: metadata "x" f32[2]) {
  %1 = iota() {dim = 0} : i32[2]
  %2 = neg(%1) : i32[2]
  %3 = exp(%0) : f32[2]
  %4 = constant() {value = 0x0000004000004040} : f32[2]
  %5, %6 = top_k(%4) {k = 1} : f32[1], i32[1]
  return "0" %2, "1" %3, "2" %5, "3" %6
}
)");
}

}  // namespace
}  // namespace deepinfer::passes
