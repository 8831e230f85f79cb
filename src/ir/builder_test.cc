#include "ir/builder.h"

#include <gtest/gtest.h>

#include "ir/composites/decompose.h"

namespace deepinfer::ir {
namespace {

TEST(BuilderTest, TheFirstErrorSticksAndNamesFunctionAndOp) {
  ModuleBuilder module;
  Builder b = module.Entry("step");
  const Value x = b.Input("x", InputKind::kMetadata, Type(DType::kF32, {2}));
  const Value y = b.Input("y", InputKind::kMetadata, Type(DType::kF32, {3}));
  const Value bad = b.Emit(Op::kAdd, {x, y});
  EXPECT_FALSE(bad.valid());
  // All of this goes on without a crash and without another error.
  EXPECT_FALSE(b.Emit(Op::kNeg, {bad}).valid());
  EXPECT_FALSE(b.Reshape(bad, {4}).valid());
  EXPECT_FALSE(b.Slice(bad, 0, 0, 1).valid());
  EXPECT_FALSE(b.Convert(bad, DType::kBF16).valid());
  b.IndexPut(bad, {bad}, bad, {0});
  b.Output("z", bad);
  const auto finished = module.Finish();
  ASSERT_FALSE(finished.has_value());
  EXPECT_EQ(finished.error().where, "function 'step', op add");
  EXPECT_EQ(finished.error().message, "shapes differ: f32[2] and f32[3]");
}

TEST(BuilderTest, DecompositionsOfInvalidValuesStayErrors) {
  for (int i = 0; i < kNumOps; ++i) {
    const Op op = static_cast<Op>(i);
    if (InfoOf(op).kind != OpKind::kComposite) continue;
    ModuleBuilder module;
    Builder b = module.Entry();
    Node node;
    node.op = op;
    const Value x = b.Input("x", InputKind::kMetadata, Type(DType::kI1, {}));
    b.Output("y", b.Emit(op, std::vector<Value>(InfoOf(op).min_operands, x)));
    EXPECT_FALSE(module.Finish().has_value()) << ToString(op);
  }
  ModuleBuilder module;
  Builder b = module.Entry();
  Node node;
  node.op = Op::kNeg;
  EXPECT_TRUE(Decompose(b, node, {}).empty());
  const auto finished = module.Finish();
  ASSERT_FALSE(finished.has_value());
  EXPECT_EQ(finished.error().message, "is not a composite");
}

TEST(BuilderTest, ImpossibleInputsAndMissingOutputsAreErrors) {
  ModuleBuilder module;
  Builder b = module.Entry();
  b.Input("x", InputKind::kWeight, Type(DType::kF32, {int64_t{1} << 40, int64_t{1} << 40}));
  const auto finished = module.Finish();
  ASSERT_FALSE(finished.has_value());
  EXPECT_NE(finished.error().message.find("is no possible size"), std::string::npos);
  ModuleBuilder other;
  Builder c = other.Entry();
  c.Output("y", Value{});
  EXPECT_FALSE(other.Finish().has_value());
}

TEST(BuilderTest, FailReportsTheRecordersOwnError) {
  ModuleBuilder module;
  Builder b = module.Entry();
  b.Fail({ErrorCode::kUnsupported, "no such rope type", "config"});
  b.Fail({ErrorCode::kInternal, "later", ""});
  const auto finished = module.Finish();
  ASSERT_FALSE(finished.has_value());
  EXPECT_EQ(finished.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(finished.error().message, "no such rope type");
}

TEST(BuilderTest, ConvertIsFreeWhereNothingChanges) {
  ModuleBuilder module;
  Builder b = module.Entry();
  const Value x = b.Input("x", InputKind::kMetadata, Type(DType::kF32, {2}));
  EXPECT_EQ(b.Convert(x, DType::kF32).id, x.id);
  EXPECT_NE(b.Convert(x, DType::kBF16).id, x.id);
}

TEST(OpTest, NamesRoundTrip) {
  for (int i = 0; i < kNumOps; ++i) EXPECT_EQ(ParseOp(ToString(static_cast<Op>(i))), static_cast<Op>(i));
  EXPECT_FALSE(ParseOp("nothing").has_value());
}

TEST(TypeTest, TextBytesAndTags) {
  EXPECT_EQ(ToString(Type(DType::kBF16, {{128, DimTag::kTokens}, 576})), "bf16[T:128,576]");
  EXPECT_EQ(ToString(Type(DType::kI32, {})), "i32[]");
  EXPECT_EQ(ToString(Type::Weight(Encoding::kQ4_1, {49152, 576})), "q4_1[49152,576]");
  EXPECT_EQ(Type::Weight(Encoding::kBF16, {2, 3}), Type(DType::kBF16, {2, 3}));
  EXPECT_EQ(Type::Weight(Encoding::kQ8_0, {3, 64}).Bytes(), 3 * 2 * 34);
  EXPECT_EQ(Type(DType::kF16, {3, 5}).Bytes(), 30);
  LiveCounts live;
  live.count = {5, 6, 7};
  EXPECT_EQ(live.Of(DimTag::kTokens, 100), 5);
  EXPECT_EQ(live.Of(DimTag::kRequests, 100), 7);
  EXPECT_EQ(live.Of(DimTag::kNone, 100), 100);
  EXPECT_TRUE(Type(DType::kF32, {int64_t{1} << 46}).Addressable());
  EXPECT_FALSE(Type(DType::kF32, {int64_t{1} << 45, 4}).Addressable());
  EXPECT_FALSE(Type(DType::kF32, {0, -1}).Addressable());
}

}  // namespace
}  // namespace deepinfer::ir
