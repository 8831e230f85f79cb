#include "ir/collective.h"

#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir/infer.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace deepinfer::ir {
namespace {

using Ints = std::vector<int64_t>;

Node Collective(Op op, AttrMap attrs, Ints groups = {0, 1, 2, 3}, int64_t group_size = 2) {
  Node node;
  node.op = op;
  node.attrs = std::move(attrs);
  node.attrs["groups"] = std::move(groups);
  node.attrs["group_size"] = group_size;
  return node;
}

std::string Infer(const Node& node, const Type& operand) {
  const auto types = InferTypes(Module(), node, {operand}, {});
  return types ? ToString((*types)[0]) : types.error().ToString();
}

const std::string kSum = "sum";
const Type kX(DType::kBF16, {Dim(4, DimTag::kTokens), 6});

TEST(CollectiveTest, TypesFollowFromTheGroups) {
  EXPECT_EQ(Infer(Collective(Op::kAllReduce, {{"kind", kSum}}), kX), ToString(kX));
  EXPECT_EQ(Infer(Collective(Op::kAllGather, {{"dim", int64_t{1}}}), kX), "bf16[T:4,12]");
  EXPECT_EQ(Infer(Collective(Op::kReduceScatter, {{"dim", int64_t{1}}, {"kind", kSum}}), kX), "bf16[T:4,3]");
  const AttrMap swap = {{"split_dim", int64_t{1}}, {"concat_dim", int64_t{0}}};
  EXPECT_EQ(Infer(Collective(Op::kAllToAll, swap), Type(DType::kI32, {3, 6})), "i32[6,3]");
  const AttrMap same = {{"split_dim", int64_t{1}}, {"concat_dim", int64_t{1}}};
  EXPECT_EQ(Infer(Collective(Op::kAllToAll, same), kX), ToString(kX));
}

TEST(CollectiveTest, ErrorsNameTheRule) {
  const auto expect = [](const Node& node, const Type& type, const std::string& message) {
    EXPECT_NE(Infer(node, type).find(message), std::string::npos) << Infer(node, type);
  };
  expect(Collective(Op::kAllReduce, {{"kind", std::string("min")}}), kX, "kind 'min' does not fit");
  expect(Collective(Op::kAllReduce, {{"kind", kSum}}), Type(DType::kI1, {2}), "kind 'sum' does not fit i1[2]");
  expect(Collective(Op::kAllGather, {{"dim", int64_t{0}}}), kX, "dim 0 of bf16[T:4,6] is counted by a live count");
  expect(Collective(Op::kAllGather, {{"dim", int64_t{2}}}), kX, "dim 2 of");
  const Node scatter = Collective(Op::kReduceScatter, {{"dim", int64_t{1}}, {"kind", kSum}});
  expect(scatter, Type(DType::kF32, {4, 5}), "dimension 1 of f32[4,5] does not divide by 2");
  const AttrMap sum = {{"kind", kSum}};
  expect(Collective(Op::kAllReduce, sum, {0, 1, 2}), kX, "groups of 2 cannot be made of 3 ranks");
  expect(Collective(Op::kAllReduce, sum, {}, 1), kX, "groups of 1 cannot be made of 0 ranks");
  expect(Collective(Op::kAllReduce, sum, {0, 2}, 1), kX, "groups [0,2] must hold each of 0 to 1 once");
  expect(Collective(Op::kAllReduce, sum, {1, 1}, 2), kX, "must hold each of 0 to 1 once");
}

TEST(CollectiveTest, GroupsKnowTheirMembers) {
  const ReplicaGroups groups{{0, 2, 3, 1}, 2};
  EXPECT_EQ(groups.world(), 4);
  EXPECT_EQ(Ints(groups.GroupOf(1).begin(), groups.GroupOf(1).end()), (Ints{3, 1}));
  EXPECT_EQ(groups.PositionOf(1), 1);
  EXPECT_EQ(groups.PositionOf(0), 0);
  EXPECT_EQ(groups.PositionOf(2), 1);
}

Module Step(int64_t ranks, const std::string& rank_type = "") {
  ModuleBuilder module;
  Builder b = module.Entry();
  const Value x = b.Input("x", InputKind::kMetadata, Type(DType::kF32, {2}));
  if (!rank_type.empty()) b.Input(kRankInput, InputKind::kMetadata, Type(*ParseDType(rank_type), {}));
  b.Output("y", b.Emit(Op::kAllReduce, {x}, OverAllRanks(ranks, {{"kind", kSum}})));
  return *module.Finish();
}

TEST(CollectiveTest, AModuleHasOneWorldAndSurvivesItsText) {
  const Module module = Step(4, "i32");
  EXPECT_EQ(WorldSize(module), 4);
  EXPECT_EQ(WorldSize(Module()), 1);
  EXPECT_TRUE(Verify(module).has_value());
  const auto parsed = Parse(Print(module));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().ToString();
  EXPECT_EQ(Print(*parsed), Print(module));

  Module mixed = Step(2);
  Node other = mixed.entry().nodes[0];
  other.attrs = OverAllRanks(4, {{"kind", kSum}});
  other.results = {mixed.entry().AddValue(Type(DType::kF32, {2}))};
  mixed.entry().nodes.push_back(other);
  const Status status = Verify(mixed);
  ASSERT_FALSE(status.has_value());
  EXPECT_NE(status.error().message.find("is over 4 ranks, others are over 2"), std::string::npos);
}

TEST(CollectiveTest, TheRankIsAnIntegerScalar) {
  ModuleBuilder module;
  Builder b = module.Entry();
  const Value rank = b.Input(kRankInput, InputKind::kMetadata, Type(DType::kF32, {}));
  b.Output("y", b.Emit(Op::kAllReduce, {rank}, OverAllRanks(2, {{"kind", kSum}})));
  const auto finished = module.Finish();
  ASSERT_FALSE(finished.has_value());
  EXPECT_NE(finished.error().message.find("must be a metadata scalar i32"), std::string::npos);
}

TEST(CollectiveTest, NoneIsWithinABranch) {
  ModuleBuilder module;
  Builder b = module.Entry();
  Builder branch = module.Function("branch");
  const Value in = branch.Input("x", InputKind::kArgument, Type(DType::kF32, {2}));
  branch.Output("y", branch.Emit(Op::kAllReduce, {in}, OverAllRanks(2, {{"kind", kSum}})));
  const Value index = b.Input("index", InputKind::kMetadata, Type(DType::kI32, {}));
  const Value x = b.Input("x", InputKind::kMetadata, Type(DType::kF32, {2}));
  b.Output("y", b.Emit(Op::kCase, {index, x}, {{"branches", std::vector<std::string>{"branch", "branch"}}}));
  const auto finished = module.Finish();
  ASSERT_FALSE(finished.has_value());
  EXPECT_NE(finished.error().message.find("within a branch of a case"), std::string::npos);
}

}  // namespace
}  // namespace deepinfer::ir
