#include "passes/test_util.h"

namespace deepinfer::passes {
namespace {

const char kTwo[] = R"(module
func @step(%0: metadata "x" f32[T:4,8], %1: metadata "y" f32[T:4,8], %2: metadata "slots" i32[T:4], %3: weight "e" f32[16,8]) {
  %4 = embedding(%3, %2) : f32[T:4,8]
  %5 = glu(%0, %4) {activation = "silu"} : f32[T:4,8]
  %6, %7 = paged_slot_indices(%2) {block_size = 4, blocks = 2} : i32[T:4], i32[T:4]
  return "y" %5, "block" %6, "offset" %7
}
)";

TEST(DecomposeTest, WhatIsClaimedStaysAndTheRestBecomesPrimitives) {
  const PassContext claims{
      [](const ir::Function&, const ir::Node& node) { return node.op != ir::Op::kPagedSlotIndices; }};
  ExpectPass(DecomposeUnclaimed, kTwo, R"(module
func @step(%0: metadata "x" f32[T:4,8], %1: metadata "y" f32[T:4,8], %2: metadata "slots" i32[T:4], %3: weight "e" f32[16,8]) {
  %4 = embedding(%3, %2) : f32[T:4,8]
  %5 = glu(%0, %4) {activation = "silu"} : f32[T:4,8]
  %6 = constant() {value = 0x00000000} : i32[T:4]
  %7 = compare(%2, %6) {direction = "ge"} : i1[T:4]
  %8 = constant() {value = 0x08000000} : i32[T:4]
  %9 = compare(%2, %8) {direction = "lt"} : i1[T:4]
  %10 = and(%7, %9) : i1[T:4]
  %11 = constant() {value = 0x00000000} : i32[T:4]
  %12 = select(%10, %2, %11) : i32[T:4]
  %13 = constant() {value = 0x04000000} : i32[T:4]
  %14 = div(%12, %13) : i32[T:4]
  %15 = constant() {value = 0x04000000} : i32[T:4]
  %16 = rem(%12, %15) : i32[T:4]
  return "y" %5, "block" %14, "offset" %16
}
)",
             claims);
}

TEST(DecomposeTest, TheClaimSeesEveryCompositeAndWithoutOneNothingIsLeft) {
  int asked = 0;
  const PassContext all{[&](const ir::Function&, const ir::Node&) {
    ++asked;
    return true;
  }};
  ExpectUnchanged(DecomposeUnclaimed, kTwo, all);
  EXPECT_EQ(asked, 2 * 3);  // ExpectUnchanged runs it twice
  ir::Module module = ParseOrDie(kTwo);
  const auto changed = DecomposeUnclaimed(&module, {});
  ASSERT_TRUE(changed.has_value());
  EXPECT_TRUE(*changed);
  EXPECT_TRUE(ir::Verify(module));
  for (const ir::Node& node : module.entry().nodes)
    EXPECT_EQ(InfoOf(node.op).kind, ir::OpKind::kPrimitive) << ToString(node.op);
  // The types of what is returned are those that the composites had.
  const ir::Module before = ParseOrDie(kTwo);
  for (size_t i = 0; i < module.entry().outputs.size(); ++i) {
    EXPECT_EQ(module.entry().TypeOf(module.entry().outputs[i].value),
              before.entry().TypeOf(before.entry().outputs[i].value));
  }
}

TEST(DecomposeTest, AnEncodedWeightWithoutAKernelIsAnErrorThatNamesTheFunction) {
  ExpectPassError(DecomposeUnclaimed, R"(module
func @step(%0: metadata "x" f16[4,32], %1: weight "w" q8_0[8,32]) {
  %2 = linear(%0, %1) : f16[4,8]
  return "y" %2
}
)",
                  ErrorCode::kInvalidArgument, "encoded weight");
}

}  // namespace
}  // namespace deepinfer::passes
