#include <cmath>

#include "interp/testing.h"

namespace deepinfer::interp {
namespace {

using ir::Op;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct UnaryCase {
  Op op;
  std::function<double(double)> f;
};

TEST(ElementwiseTest, FloatUnaryOpsAreWithinOneRoundingOfTheExactValue) {
  const std::vector<UnaryCase> cases = {
      {Op::kNeg, [](double x) { return -x; }},
      {Op::kAbs, [](double x) { return std::fabs(x); }},
      {Op::kExp, [](double x) { return std::exp(x); }},
      {Op::kLog, [](double x) { return std::log(x); }},
      {Op::kTanh, [](double x) { return std::tanh(x); }},
      {Op::kSqrt, [](double x) { return std::sqrt(x); }},
      {Op::kRsqrt, [](double x) { return 1 / std::sqrt(x); }},
      {Op::kSin, [](double x) { return std::sin(x); }},
      {Op::kCos, [](double x) { return std::cos(x); }},
      {Op::kLogistic, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {Op::kFloor, [](double x) { return std::floor(x); }},
  };
  for (const UnaryCase& c : cases) {
    for (const DType dtype : kFloats) {
      const bool positive = c.op == Op::kLog || c.op == Op::kSqrt || c.op == Op::kRsqrt;
      const Tensor x = Random(dtype, {7, 211}, 1, positive ? 0.1 : -3, 3);
      const Tensor y = RunOne(c.op, {x});
      for (int64_t i = 0; i < x.size(); ++i) {
        const double want = c.f(x.At(i));
        ASSERT_NEAR(y.At(i), want, 2 * Ulp(dtype, want)) << ToString(c.op) << " " << ToString(dtype) << " " << x.At(i);
      }
    }
  }
}

TEST(ElementwiseTest, IntegerUnaryOps) {
  for (const DType dtype : {DType::kI8, DType::kI32, DType::kI64}) {
    const Tensor x = Make(dtype, {4}, {-128, -1, 0, 100});
    EXPECT_EQ(RunOne(Op::kNeg, {x}).At(1), 1);
    EXPECT_EQ(RunOne(Op::kAbs, {x}).At(1), 1);
    EXPECT_EQ(RunOne(Op::kAbs, {x}).At(3), 100);
    EXPECT_EQ(RunOne(Op::kNot, {x}).At(2), -1);
  }
  EXPECT_EQ(RunOne(Op::kNeg, {Make(DType::kI8, {1}, {-128})}).At(0), -128);  // wraps
  EXPECT_EQ(RunOne(Op::kNeg, {Make(DType::kU8, {1}, {1})}).At(0), 255);
  EXPECT_EQ(RunOne(Op::kNot, {Make(DType::kI1, {1}, {0})}).At(0), 1);
}

struct BinaryCase {
  Op op;
  std::function<double(double, double)> f;
};

TEST(ElementwiseTest, FloatBinaryOps) {
  const std::vector<BinaryCase> cases = {
      {Op::kAdd, [](double a, double b) { return a + b; }},
      {Op::kSub, [](double a, double b) { return a - b; }},
      {Op::kMul, [](double a, double b) { return a * b; }},
      {Op::kDiv, [](double a, double b) { return a / b; }},
      {Op::kRem, [](double a, double b) { return std::fmod(a, b); }},
      {Op::kPow, [](double a, double b) { return std::pow(a, b); }},
      {Op::kMax, [](double a, double b) { return std::max(a, b); }},
      {Op::kMin, [](double a, double b) { return std::min(a, b); }},
  };
  for (const BinaryCase& c : cases) {
    for (const DType dtype : kFloats) {
      const Tensor a = Random(dtype, {1500}, 2, c.op == Op::kPow ? 0.2 : -3, 3);
      const Tensor b = Random(dtype, {1500}, 3, 0.3, 3);
      const Tensor y = RunOne(c.op, {a, b});
      for (int64_t i = 0; i < a.size(); ++i) {
        const double want = c.f(a.At(i), b.At(i));
        ASSERT_NEAR(y.At(i), want, 2 * Ulp(dtype, want)) << ToString(c.op) << " " << ToString(dtype);
      }
    }
  }
}

TEST(ElementwiseTest, IntegerBinaryOpsAreExact) {
  const std::vector<BinaryCase> cases = {
      {Op::kAdd, [](double a, double b) { return a + b; }},
      {Op::kSub, [](double a, double b) { return a - b; }},
      {Op::kMul, [](double a, double b) { return a * b; }},
      {Op::kDiv, [](double a, double b) { return std::trunc(a / b); }},
      {Op::kRem, [](double a, double b) { return std::fmod(a, b); }},
      {Op::kMax, [](double a, double b) { return std::max(a, b); }},
      {Op::kMin, [](double a, double b) { return std::min(a, b); }},
      {Op::kAnd,
       [](double a, double b) { return static_cast<double>(static_cast<int64_t>(a) & static_cast<int64_t>(b)); }},
      {Op::kOr,
       [](double a, double b) { return static_cast<double>(static_cast<int64_t>(a) | static_cast<int64_t>(b)); }},
      {Op::kXor,
       [](double a, double b) { return static_cast<double>(static_cast<int64_t>(a) ^ static_cast<int64_t>(b)); }},
  };
  for (const BinaryCase& c : cases) {
    for (const DType dtype : kIntegers) {
      const bool is_signed = dtype != DType::kU8 && dtype != DType::kU32;
      const Tensor a = is_signed ? Random(dtype, {300}, 4, -11, 11) : Random(dtype, {300}, 4, 9, 11);
      const Tensor b = Random(dtype, {300}, 5, 1, 9);
      const Tensor y = RunOne(c.op, {a, b});
      for (int64_t i = 0; i < a.size(); ++i)
        ASSERT_EQ(y.At(i), c.f(a.At(i), b.At(i))) << ToString(c.op) << ToString(dtype);
    }
  }
}

TEST(ElementwiseTest, IntegersWrapAndNeverTrap) {
  const double low = std::numeric_limits<int32_t>::min();
  const double high = std::numeric_limits<int32_t>::max();
  const Tensor a = Make(DType::kI32, {4}, {high, low, 7, low});
  const Tensor b = Make(DType::kI32, {4}, {1, -1, 0, 0});
  const Tensor sum = RunOne(Op::kAdd, {a, b});
  EXPECT_EQ(sum.At(0), low);
  EXPECT_EQ(sum.At(1), high);
  const Tensor quotient = RunOne(Op::kDiv, {a, b});
  EXPECT_EQ(quotient.At(1), low);
  EXPECT_EQ(quotient.At(2), -1);
  const Tensor rest = RunOne(Op::kRem, {a, b});
  EXPECT_EQ(rest.At(1), 0);
  EXPECT_EQ(rest.At(2), 7);
  EXPECT_EQ(RunOne(Op::kMul, {Make(DType::kI8, {1}, {100}), Make(DType::kI8, {1}, {3})}).At(0), 44);
}

TEST(ElementwiseTest, ShiftsAreArithmeticForSignedTypesAndMayShiftEverythingOut) {
  const Tensor a = Make(DType::kI32, {5}, {-8, -8, -8, 1, 1});
  const Tensor n = Make(DType::kI32, {5}, {1, 32, -1, 31, 32});
  const Tensor right = RunOne(Op::kShiftRight, {a, n});
  EXPECT_EQ(right.At(0), -4);
  EXPECT_EQ(right.At(1), -1);
  EXPECT_EQ(right.At(2), -1);
  EXPECT_EQ(right.At(3), 0);
  const Tensor left = RunOne(Op::kShiftLeft, {a, n});
  EXPECT_EQ(left.At(0), -16);
  EXPECT_EQ(left.At(3), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(left.At(4), 0);
  EXPECT_EQ(RunOne(Op::kShiftRight, {Make(DType::kU8, {1}, {200}), Make(DType::kU8, {1}, {3})}).At(0), 25);
}

TEST(ElementwiseTest, BooleansAreAnyNonzeroByte) {
  Tensor a = Make(DType::kI1, {4}, {0, 1, 0, 1});
  a.data[1] = std::byte{0xff};
  const Tensor b = Make(DType::kI1, {4}, {0, 1, 1, 0});
  const std::vector<std::pair<Op, std::vector<double>>> cases = {
      {Op::kAnd, {0, 1, 0, 0}}, {Op::kOr, {0, 1, 1, 1}}, {Op::kXor, {0, 0, 1, 1}}};
  for (const auto& [op, want] : cases) {
    const Tensor y = RunOne(op, {a, b});
    for (int i = 0; i < 4; ++i) EXPECT_EQ(static_cast<int>(y.data[i]), want[i]) << ToString(op) << i;
  }
}

TEST(ElementwiseTest, MaxAndMinLetNaNWin) {
  const Tensor a = Make(DType::kF32, {3}, {kNaN, 1, 2});
  const Tensor b = Make(DType::kF32, {3}, {1, kNaN, 3});
  for (const Op op : {Op::kMax, Op::kMin}) {
    const Tensor y = RunOne(op, {a, b});
    EXPECT_TRUE(std::isnan(y.At(0)));
    EXPECT_TRUE(std::isnan(y.At(1)));
    EXPECT_EQ(y.At(2), op == Op::kMax ? 3 : 2);
  }
}

TEST(ElementwiseTest, CompareInEveryDirectionAndDType) {
  const std::vector<std::pair<const char*, std::vector<double>>> cases = {
      {"eq", {0, 1, 0}}, {"ne", {1, 0, 1}}, {"lt", {1, 0, 0}}, {"le", {1, 1, 0}}, {"gt", {0, 0, 1}}, {"ge", {0, 1, 1}}};
  for (const auto& [direction, want] : cases) {
    for (const DType dtype : kAll) {
      const Tensor a = Make(dtype, {3}, {0, 1, 1});
      const Tensor b = Make(dtype, {3}, {1, 1, 0});
      const Tensor y = RunOne(Op::kCompare, {a, b}, {{"direction", std::string(direction)}});
      for (int i = 0; i < 3; ++i) EXPECT_EQ(y.At(i), want[i]) << direction << " " << ToString(dtype);
    }
    const Tensor nan = RunOne(Op::kCompare, {Make(DType::kF32, {1}, {kNaN}), Make(DType::kF32, {1}, {kNaN})},
                              {{"direction", std::string(direction)}});
    EXPECT_EQ(nan.At(0), std::string(direction) == "ne" ? 1 : 0) << direction;
  }
}

TEST(ElementwiseTest, SelectPicksBitsAndDoesNotCompute) {
  for (const DType dtype : kAll) {
    const Tensor a = Random(dtype, {2000}, 6);
    const Tensor b = Random(dtype, {2000}, 7);
    const Tensor condition = Random(DType::kI1, {2000}, 8);
    const Tensor y = RunOne(Op::kSelect, {condition, a, b});
    for (int64_t i = 0; i < y.size(); ++i) ASSERT_EQ(y.At(i), condition.At(i) != 0 ? a.At(i) : b.At(i));
  }
}

TEST(ElementwiseTest, ConvertBetweenAllTypesRoundsOnce) {
  for (const DType from : kAll) {
    const Tensor x = Random(from, {500}, 9, -100, 100);
    for (const DType to : kAll) {
      const Tensor y = RunOne(Op::kConvert, {x}, {}, {x.type.WithDType(to)});
      for (int64_t i = 0; i < x.size(); ++i) {
        double want = x.At(i);
        if (to == DType::kI1) {
          want = want != 0 ? 1 : 0;
        } else if (!IsFloat(to)) {
          want = std::trunc(want);
          if (IsFloat(from) && (to == DType::kU8 || to == DType::kU32)) want = std::max(want, 0.0);
          if (!IsFloat(from) && want < 0 && (to == DType::kU8 || to == DType::kU32)) {
            want += to == DType::kU8 ? 256.0 : 4294967296.0;  // integers keep their bits
          }
        }
        ASSERT_NEAR(y.At(i), want, IsFloat(to) ? Ulp(to, want) / 2 : 0) << ToString(from) << "->" << ToString(to);
      }
    }
  }
}

TEST(ElementwiseTest, ConvertSaturatesFloatsAndAvoidsDoubleRounding) {
  const Tensor x = Make(DType::kF32, {5}, {1e20, -1e20, kNaN, kInf, 2147483520});
  const Tensor y = RunOne(Op::kConvert, {x}, {}, {Make(DType::kI32, {5}, {0, 0, 0, 0, 0}).type});
  EXPECT_EQ(y.At(0), 2147483647.0);
  EXPECT_EQ(y.At(1), -2147483648.0);
  EXPECT_EQ(y.At(2), 0);
  EXPECT_EQ(y.At(3), 2147483647.0);
  EXPECT_EQ(y.At(4), 2147483520.0);
  // 2^30 + 2^22 + 1 lies just above halfway between two bf16 neighbours; through f32 the 1 would be lost, and the tie
  // would go to the even, lower one.
  const Tensor big = Make(DType::kI32, {2}, {1077936129, -1077936129});
  const Tensor half = RunOne(Op::kConvert, {big}, {}, {big.type.WithDType(DType::kBF16)});
  EXPECT_EQ(half.At(0), 1082130432.0);
  EXPECT_EQ(half.At(1), -1082130432.0);
}

TEST(ElementwiseTest, OnlyLiveRowsAreComputed) {
  const Tensor x = Random(DType::kF32, {{8, ir::DimTag::kTokens}, 5}, 10);
  for (const int64_t live : {0, 3, 8, 100}) {
    const Tensor y = RunOne(Op::kNeg, {x}, {}, {}, LiveTokens(live), nullptr, /*fill=*/0xff);
    for (int64_t i = 0; i < 40; ++i) {
      if (i / 5 < live) {
        EXPECT_EQ(y.At(i), -x.At(i));
      } else {
        EXPECT_TRUE(std::isnan(y.At(i))) << "row " << i / 5 << " of " << live;
      }
    }
  }
}

TEST(ElementwiseTest, SplatConstantsAreTakenAtPreparation) {
  ir::ModuleBuilder module;
  ir::Builder b = module.Entry("test");
  const ir::Value x = b.Input("x", ir::InputKind::kArgument, ir::Type(DType::kBF16, {3000}));
  b.Output("y", b.Emit(Op::kSub, {b.Splat(b.TypeOf(x), 2), x}));
  const ir::Module built = *module.Finish();
  auto node = PrepareNode(built.entry(), built.entry().nodes[1]);
  ASSERT_TRUE(node.has_value());
  EXPECT_FALSE((*node)->Reads(0));
  EXPECT_TRUE((*node)->Reads(1));
  const Tensor data = Random(DType::kBF16, {3000}, 11);
  Tensor y(data.type);
  const void* in[] = {nullptr, data.data.data()};
  void* out[] = {y.data.data()};
  (*node)->Run(in, out, AllLive(), nullptr);
  for (int64_t i = 0; i < 3000; ++i) ASSERT_NEAR(y.At(i), 2 - data.At(i), Ulp(DType::kBF16, 2 - data.At(i)));
}

TEST(ElementwiseTest, AThreadTeamChangesNothing) {
  ThreadTeam team(3);
  const Tensor a = Random(DType::kF32, {300, 500}, 12);
  const Tensor b = Random(DType::kF32, {300, 500}, 13);
  EXPECT_EQ(RunOne(Op::kDiv, {a, b}).data, RunOne(Op::kDiv, {a, b}, {}, {}, AllLive(), &team).data);
}

TEST(ElementwiseTest, WhatIsNoPrimitiveIsRefused) {
  for (const auto& [op, count] :
       std::vector<std::pair<Op, int>>{{Op::kGlu, 2}, {Op::kIndexPutInplace, 3}, {Op::kCall, 0}}) {
    ir::Function f;
    ir::Node node;
    node.op = op;
    for (int i = 0; i < count; ++i) node.operands.push_back(f.AddValue(ir::Type(DType::kF32, {2})));
    if (op == Op::kGlu) node.results = {f.AddValue(ir::Type(DType::kF32, {2}))};
    const auto prepared = PrepareNode(f, node);
    ASSERT_FALSE(prepared.has_value());
    EXPECT_EQ(prepared.error().code, ErrorCode::kUnsupported);
    EXPECT_EQ(prepared.error().where, ToString(op));
  }
}

}  // namespace
}  // namespace deepinfer::interp
