#include "passes/test_util.h"

namespace deepinfer::passes {
namespace {

const PassContext kClaimsAll = {.claims = [](const ir::Function&, const ir::Node&) { return true; }};

constexpr char kPair[] = R"(module
func @step(%0: metadata "x" bf16[T:4,256], %1: weight "g" q4_k[8,256], %2: weight "u" q6_k[8,256]) {
  %3 = linear(%0, %1) : bf16[T:4,8]
  %4 = linear(%0, %2) : bf16[T:4,8]
  %5 = glu(%3, %4) {activation = "silu"} : bf16[T:4,8]
  return "y" %5
}
)";

TEST(FuseGluTest, TwoProjectionsThatOnlyAGluReadsBecomeOne) {
  ExpectPass(FuseGlu, kPair,
             R"(module
func @step(%0: metadata "x" bf16[T:4,256], %1: weight "g" q4_k[8,256], %2: weight "u" q6_k[8,256]) {
  %3 = gated_linear(%0, %1, %2) {activation = "silu", dtype = "bf16"} : bf16[T:4,8]
  return "y" %3
}
)",
             kClaimsAll);
}

TEST(FuseGluTest, BiasesComeWithTheirProjections) {
  ExpectPass(FuseGlu,
             R"(module
func @step(%0: metadata "x" bf16[4,8], %1: weight "g" f32[8,8], %2: weight "u" f32[8,8], %3: weight "a" f32[8], %4: weight "b" f32[8]) {
  %5 = linear(%0, %2, %4) {dtype = "f32"} : f32[4,8]
  %6 = linear(%0, %1, %3) {dtype = "f32"} : f32[4,8]
  %7 = glu(%6, %5) {activation = "gelu_tanh"} : f32[4,8]
  return "y" %7
}
)",
             R"(module
func @step(%0: metadata "x" bf16[4,8], %1: weight "g" f32[8,8], %2: weight "u" f32[8,8], %3: weight "a" f32[8], %4: weight "b" f32[8]) {
  %5 = gated_linear(%0, %1, %2, %3, %4) {activation = "gelu_tanh", dtype = "f32"} : f32[4,8]
  return "y" %5
}
)",
             kClaimsAll);
}

TEST(FuseGluTest, NothingHappensWithoutAKernel) {
  ExpectUnchanged(FuseGlu, kPair);
}

TEST(FuseGluTest, AProjectionThatSomebodyElseReadsOrOfAnotherInputIsLeftAlone) {
  ExpectUnchanged(FuseGlu, R"(module
func @step(%0: metadata "x" bf16[4,8], %1: metadata "z" bf16[4,8], %2: weight "a" f32[8,8], %3: weight "b" f32[8]) {
  %4 = linear(%0, %2) : bf16[4,8]
  %5 = linear(%1, %2) : bf16[4,8]
  %6 = glu(%4, %5) {activation = "silu"} : bf16[4,8]
  %7 = linear(%0, %2) : bf16[4,8]
  %8 = linear(%0, %2, %3) : bf16[4,8]
  %9 = glu(%7, %8) {activation = "silu"} : bf16[4,8]
  %10 = linear(%0, %2) : bf16[4,8]
  %11 = glu(%10, %10) {activation = "silu"} : bf16[4,8]
  %12 = linear(%0, %2) : bf16[4,8]
  %13 = linear(%0, %2) : bf16[4,8]
  %14 = glu(%12, %13) {activation = "silu"} : bf16[4,8]
  return "0" %6, "1" %9, "2" %11, "3" %14, "4" %13
}
)",
                  kClaimsAll);
}

}  // namespace
}  // namespace deepinfer::passes
