#include "interp/collective.h"

#include <gtest/gtest.h>

#include "interp/testing.h"
#include "ir/collective.h"

namespace deepinfer::interp {
namespace {

using Ints = std::vector<int64_t>;
using Values = std::vector<double>;

// What each rank gets; one operand per rank.
std::vector<Values> RunRanks(ir::Op op, const std::vector<Tensor>& operands, ir::AttrMap attrs) {
  ir::ModuleBuilder module;
  ir::Builder b = module.Entry();
  const ir::Value x = b.Input("x", ir::InputKind::kMetadata, operands[0].type);
  b.Output("y", b.Emit(op, {x}, std::move(attrs)));
  const auto finished = module.Finish();
  if (!finished) {
    ADD_FAILURE() << finished.error().ToString();
    return {};
  }
  const ir::Function& f = finished->entry();
  const auto prepared = PrepareCollective(f, f.nodes[0]);
  EXPECT_TRUE(prepared.has_value());
  std::vector<const void*> pointers;
  for (const Tensor& operand : operands) pointers.push_back(operand.data.data());
  std::vector<Values> results;
  for (size_t rank = 0; rank < operands.size(); ++rank) {
    Tensor y(f.TypeOf(f.outputs[0].value));
    (*prepared)->Run(static_cast<int64_t>(rank), pointers.data(), y.data.data());
    Values values;
    for (int64_t i = 0; i < y.size(); ++i) values.push_back(y.At(i));
    results.push_back(std::move(values));
  }
  return results;
}

ir::AttrMap Groups(Ints groups, int64_t group_size, ir::AttrMap attrs) {
  attrs["groups"] = std::move(groups);
  attrs["group_size"] = group_size;
  return attrs;
}

const std::string kSum = "sum";
const std::string kMax = "max";

TEST(CollectiveTest, AllReduceWithinEachGroup) {
  std::vector<Tensor> x;
  for (const double base : {1.0, 10.0, 100.0, 1000.0}) x.push_back(Make(DType::kF32, {2}, {base, -base}));
  const auto sums = RunRanks(ir::Op::kAllReduce, x, Groups({0, 2, 1, 3}, 2, {{"kind", kSum}}));
  EXPECT_EQ(sums, (std::vector<Values>{{101, -101}, {1010, -1010}, {101, -101}, {1010, -1010}}));
  const auto best = RunRanks(ir::Op::kAllReduce, x, ir::OverAllRanks(4, {{"kind", kMax}}));
  for (const Values& values : best) EXPECT_EQ(values, (Values{1000, -1}));
}

TEST(CollectiveTest, SumsAreRoundedOnceAndANanWins) {
  // In bf16, 256 + 1 is 256: adding 1 twice without rounding between gives 258.
  const std::vector<Tensor> x = {Make(DType::kBF16, {2}, {256, 1}), Make(DType::kBF16, {2}, {1, NAN}),
                                 Make(DType::kBF16, {2}, {1, 2})};
  const auto sums = RunRanks(ir::Op::kAllReduce, x, ir::OverAllRanks(3, {{"kind", kSum}}));
  EXPECT_EQ(sums[2][0], 258);
  const auto best = RunRanks(ir::Op::kAllReduce, x, ir::OverAllRanks(3, {{"kind", kMax}}));
  EXPECT_TRUE(std::isnan(best[0][1]));
}

TEST(CollectiveTest, IntegerSumsWrap) {
  const std::vector<Tensor> x(2, Make(DType::kI32, {1}, {0x7fffffff}));
  EXPECT_EQ(RunRanks(ir::Op::kAllReduce, x, ir::OverAllRanks(2, {{"kind", kSum}}))[0], (Values{-2}));
}

TEST(CollectiveTest, AllGatherAlongEitherDimension) {
  const std::vector<Tensor> x = {Make(DType::kI32, {2, 2}, {1, 2, 3, 4}), Make(DType::kI32, {2, 2}, {5, 6, 7, 8})};
  const auto rows = RunRanks(ir::Op::kAllGather, x, ir::OverAllRanks(2, {{"dim", int64_t{0}}}));
  EXPECT_EQ(rows[0], (Values{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(rows[1], rows[0]);
  const auto columns = RunRanks(ir::Op::kAllGather, x, Groups({1, 0}, 2, {{"dim", int64_t{1}}}));
  EXPECT_EQ(columns[0], (Values{5, 6, 1, 2, 7, 8, 3, 4}));  // the order of the group
}

TEST(CollectiveTest, ReduceScatterGivesEachItsShare) {
  const std::vector<Tensor> x = {Make(DType::kF32, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}),
                                 Make(DType::kF32, {2, 4}, {10, 20, 30, 40, 50, 60, 70, 80})};
  const auto shares = RunRanks(ir::Op::kReduceScatter, x, ir::OverAllRanks(2, {{"kind", kSum}, {"dim", int64_t{1}}}));
  EXPECT_EQ(shares, (std::vector<Values>{{11, 22, 55, 66}, {33, 44, 77, 88}}));
}

TEST(CollectiveTest, AllToAllTransposesBlocks) {
  const std::vector<Tensor> x = {Make(DType::kI32, {2}, {1, 2}), Make(DType::kI32, {2}, {3, 4})};
  const ir::AttrMap same = {{"split_dim", int64_t{0}}, {"concat_dim", int64_t{0}}};
  EXPECT_EQ(RunRanks(ir::Op::kAllToAll, x, ir::OverAllRanks(2, same)), (std::vector<Values>{{1, 3}, {2, 4}}));
  const std::vector<Tensor> y = {Make(DType::kI32, {1, 4}, {1, 2, 3, 4}), Make(DType::kI32, {1, 4}, {5, 6, 7, 8})};
  const ir::AttrMap other = {{"split_dim", int64_t{1}}, {"concat_dim", int64_t{0}}};
  EXPECT_EQ(RunRanks(ir::Op::kAllToAll, y, ir::OverAllRanks(2, other)),
            (std::vector<Values>{{1, 2, 5, 6}, {3, 4, 7, 8}}));
}

TEST(CollectiveTest, OneRankAloneChangesNothing) {
  const Tensor x = Random(DType::kF32, {3, 2}, 1);
  const auto alone = RunNode(ir::Op::kAllGather, {x}, ir::OverAllRanks(1, {{"dim", int64_t{0}}}));
  ASSERT_TRUE(alone.has_value()) << alone.error().ToString();
  EXPECT_EQ((*alone)[0].data, x.data);
  const auto others = RunNode(ir::Op::kAllReduce, {x}, ir::OverAllRanks(2, {{"kind", kSum}}));
  ASSERT_FALSE(others.has_value());
  EXPECT_NE(others.error().message.find("is over 2 ranks"), std::string::npos);
}

}  // namespace
}  // namespace deepinfer::interp
