#include "passes/test_util.h"

namespace deepinfer::passes {
namespace {

TEST(FuseAddNormTest, TheSumStaysAvailableToLaterReaders) {
  ExpectPass(FuseAddNorm,
             R"(module
func @step(%0: metadata "x" f32[T:4,8], %1: metadata "r" f32[T:4,8], %2: weight "g" f32[8], %3: weight "h" f32[8]) {
  %4 = add(%0, %1) : f32[T:4,8]
  %5 = exp(%1) : f32[T:4,8]
  %6 = rms_norm(%4, %2) {eps = 1e-06, offset = 1.0} : f32[T:4,8]
  %7 = rms_norm(%4, %3) {eps = 1e-06} : f32[T:4,8]
  %8 = add(%4, %6) : f32[T:4,8]
  return "y" %8, "z" %7, "e" %5
}
)",
             R"(module
func @step(%0: metadata "x" f32[T:4,8], %1: metadata "r" f32[T:4,8], %2: weight "g" f32[8], %3: weight "h" f32[8]) {
  %4 = exp(%1) : f32[T:4,8]
  %5, %6 = add_rms_norm(%0, %1, %2) {eps = 1e-06, offset = 1.0} : f32[T:4,8], f32[T:4,8]
  %7 = rms_norm(%5, %3) {eps = 1e-06} : f32[T:4,8]
  %8 = add(%5, %6) : f32[T:4,8]
  return "y" %8, "z" %7, "e" %4
}
)");
}

TEST(FuseAddNormTest, ASumThatIsReadBeforeTheNormStaysWhereItIs) {
  ExpectUnchanged(FuseAddNorm, R"(module
func @step(%0: metadata "x" f32[4,8], %1: metadata "r" f32[4,8], %2: weight "g" f32[8]) {
  %3 = add(%0, %1) : f32[4,8]
  %4 = exp(%3) : f32[4,8]
  %5 = rms_norm(%3, %2) {eps = 1e-06} : f32[4,8]
  return "y" %5, "e" %4
}
)");
}

TEST(FuseAddNormTest, ASumOfAStateThatIsOverwrittenBeforeTheNormStaysWhereItIs) {
  ExpectUnchanged(FuseAddNorm, R"(module
func @step(%0: state "s" f32[4,8], %1: metadata "r" f32[4,8], %2: weight "g" f32[8], %3: metadata "i" i32[4]) {
  %4 = add(%0, %1) : f32[4,8]
  %5 = index_put(%0, %3, %1) {dims = [0]} : f32[4,8]
  %6 = rms_norm(%4, %2) {eps = 1e-06} : f32[4,8]
  return "y" %6, "s" %5
} alias 1 -> 0
)");
}

TEST(FuseAddNormTest, EachPairInARowIsFused) {
  ExpectPass(FuseAddNorm,
             R"(module
func @step(%0: metadata "x" f32[8], %1: metadata "r" f32[8], %2: weight "g" f32[8]) {
  %3 = add(%0, %1) : f32[8]
  %4 = rms_norm(%3, %2) {eps = 1e-06} : f32[8]
  %5 = add(%3, %4) : f32[8]
  %6 = rms_norm(%5, %2) {eps = 1e-06} : f32[8]
  return "y" %6
}
)",
             R"(module
func @step(%0: metadata "x" f32[8], %1: metadata "r" f32[8], %2: weight "g" f32[8]) {
  %3, %4 = add_rms_norm(%0, %1, %2) {eps = 1e-06} : f32[8], f32[8]
  %5, %6 = add_rms_norm(%3, %4, %2) {eps = 1e-06} : f32[8], f32[8]
  return "y" %6
}
)");
}

TEST(FuseLinearsTest, ProjectionsOfOneInputAreMergedWhereTheFirstStood) {
  ExpectPass(FuseLinears,
             R"(module
func @step(%0: metadata "x" bf16[T:4,256], %1: weight "q" q4_k[8,256], %2: weight "k" q6_k[4,256], %3: weight "v" f32[4,256]) {
  %4 = linear(%0, %1) : bf16[T:4,8]
  %5 = exp(%4) : bf16[T:4,8]
  %6 = linear(%0, %2) : bf16[T:4,4]
  %7 = linear(%0, %3) : bf16[T:4,4]
  return "q" %5, "k" %6, "v" %7
}
)",
             R"(module
func @step(%0: metadata "x" bf16[T:4,256], %1: weight "q" q4_k[8,256], %2: weight "k" q6_k[4,256], %3: weight "v" f32[4,256]) {
  %4, %5, %6 = multi_linear(%0, %1, %2, %3) {bias = 0, dtype = "bf16", weights = 3} : bf16[T:4,8], bf16[T:4,4], bf16[T:4,4]
  %7 = exp(%4) : bf16[T:4,8]
  return "q" %7, "k" %5, "v" %6
}
)");
}

TEST(FuseLinearsTest, OnlyThoseWithOrWithoutBiasOfOneDTypeAndInputAreMerged) {
  ExpectPass(FuseLinears,
             R"(module
func @step(%0: metadata "x" bf16[4,8], %1: weight "a" f32[8,8], %2: weight "b" f32[8,8], %3: weight "c" f32[8]) {
  %4 = linear(%0, %1) : bf16[4,8]
  %5 = linear(%0, %1, %3) : bf16[4,8]
  %6 = linear(%0, %2) {dtype = "f32"} : f32[4,8]
  %7 = linear(%4, %2) : bf16[4,8]
  %8 = linear(%0, %2, %3) : bf16[4,8]
  return "0" %4, "1" %5, "2" %6, "3" %7, "4" %8
}
)",
             R"(module
func @step(%0: metadata "x" bf16[4,8], %1: weight "a" f32[8,8], %2: weight "b" f32[8,8], %3: weight "c" f32[8]) {
  %4 = linear(%0, %1) : bf16[4,8]
  %5, %6 = multi_linear(%0, %1, %2, %3, %3) {bias = 1, dtype = "bf16", weights = 2} : bf16[4,8], bf16[4,8]
  %7 = linear(%0, %2) {dtype = "f32"} : f32[4,8]
  %8 = linear(%4, %2) : bf16[4,8]
  return "0" %4, "1" %5, "2" %7, "3" %8, "4" %6
}
)");
}

TEST(FuseLinearsTest, AComputedWeightIsLeftAlone) {
  ExpectUnchanged(FuseLinears, R"(module
func @step(%0: metadata "x" f32[4,8], %1: weight "a" f32[8,8]) {
  %2 = linear(%0, %1) : f32[4,8]
  %3 = neg(%1) : f32[8,8]
  %4 = linear(%0, %3) : f32[4,8]
  return "0" %2, "1" %4
}
)");
}

}  // namespace
}  // namespace deepinfer::passes
