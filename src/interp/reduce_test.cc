#include <cmath>

#include "interp/testing.h"

namespace deepinfer::interp {
namespace {

using Ints = std::vector<int64_t>;
using ir::DimTag;
using ir::Op;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

struct Shape {
  std::vector<ir::Dim> dims;
  Ints reduced;
};

// By brute force over all positions, in double.
std::vector<double> Naive(const Tensor& x, const Ints& reduced, const std::string& kind) {
  const Ints shape = x.type.Shape();
  std::vector<int64_t> kept_stride(shape.size(), 0);
  int64_t results = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (std::find(reduced.begin(), reduced.end(), static_cast<int64_t>(i)) != reduced.end()) continue;
    kept_stride[i] = results;
    results *= shape[i];
  }
  std::vector<double> out(results, kind == "sum"   ? 0
                                   : kind == "max" ? -kInf
                                   : kind == "min" ? kInf
                                   : kind == "and" ? 1
                                                   : 0);
  for (int64_t n = 0; n < x.size(); ++n) {
    int64_t rest = n;
    int64_t at = 0;
    for (size_t i = shape.size(); i-- > 0;) {
      at += rest % shape[i] * kept_stride[i];
      rest /= shape[i];
    }
    const double v = x.At(n);
    if (kind == "sum") out[at] += v;
    if (kind == "max") out[at] = std::max(out[at], v);
    if (kind == "min") out[at] = std::min(out[at], v);
    if (kind == "and") out[at] = out[at] != 0 && v != 0;
    if (kind == "or") out[at] = out[at] != 0 || v != 0;
  }
  return out;
}

TEST(ReduceTest, EveryKindDTypeAndPlacement) {
  const std::vector<Shape> shapes = {
      {{40, 17}, {1}},        {{17, 40}, {0}},        {{3, 5, 7}, {1}}, {{3, 5, 7}, {0, 2}},
      {{2, 3, 4, 5}, {1, 2}}, {{2, 3, 4, 5}, {0, 3}}, {{6, 5}, {0, 1}}, {{6, 5}, {}}};
  for (const Shape& shape : shapes) {
    for (const DType dtype : kAll) {
      const Tensor x = dtype == DType::kF8E4M3 ? Random(dtype, shape.dims, 1, -0.1, 0.1) : Random(dtype, shape.dims, 1);
      for (const char* kind : {"sum", "max", "min", "and", "or"}) {
        const bool logical = std::string(kind) == "and" || std::string(kind) == "or";
        if (logical != (dtype == DType::kI1)) continue;
        const Tensor y = RunOne(Op::kReduce, {x}, {{"kind", std::string(kind)}, {"dims", shape.reduced}});
        const std::vector<double> want = Naive(x, shape.reduced, kind);
        ASSERT_EQ(y.size(), static_cast<int64_t>(want.size()));
        for (int64_t i = 0; i < y.size(); ++i) {
          ASSERT_NEAR(y.At(i), want[i], IsFloat(dtype) ? Ulp(dtype, want[i]) + 1e-4 : 0)
              << kind << " " << ToString(x.type);
        }
      }
    }
  }
}

TEST(ReduceTest, SumsRunInAscendingOrderWhereverTheRowStands) {
  // 1e8 + 1 - 1e8 in f32 depends on the order; every row must give what the plain loop gives, in rows of any number.
  for (const int64_t rows : {1, 7, 8, 9, 33}) {
    const Tensor x = Random(DType::kF32, {rows, 1000}, 2, -1e6, 1e6);
    const Tensor y = RunOne(Op::kReduce, {x}, {{"kind", std::string("sum")}, {"dims", Ints{1}}});
    for (int64_t r = 0; r < rows; ++r) {
      volatile float sum = 0;
      for (int64_t i = 0; i < 1000; ++i) sum = sum + static_cast<float>(x.At(r * 1000 + i));
      ASSERT_EQ(y.At(r), sum) << rows << " rows, row " << r;
    }
  }
}

TEST(ReduceTest, EmptyReductionsGiveTheNeutralElement) {
  const Tensor x(ir::Type(DType::kF32, {3, 0}));
  const std::vector<std::pair<const char*, double>> cases = {{"sum", 0}, {"max", -kInf}, {"min", kInf}};
  for (const auto& [kind, want] : cases) {
    EXPECT_EQ(RunOne(Op::kReduce, {x}, {{"kind", std::string(kind)}, {"dims", Ints{1}}}).At(2), want);
  }
  EXPECT_EQ(
      RunOne(Op::kReduce, {Tensor(ir::Type(DType::kI1, {0}))}, {{"kind", std::string("and")}, {"dims", Ints{0}}}).At(0),
      1);
}

TEST(ReduceTest, MaxLetsNaNWin) {
  const Tensor x = Make(DType::kF32, {2, 3}, {1, kNaN, 3, 1, 2, 3});
  const Tensor y = RunOne(Op::kReduce, {x}, {{"kind", std::string("max")}, {"dims", Ints{1}}});
  EXPECT_TRUE(std::isnan(y.At(0)));
  EXPECT_EQ(y.At(1), 3);
}

TEST(ReduceTest, StopsAtLiveCountsOfResultAndOfReducedDimensions) {
  Tensor x = Random(DType::kF32, {{6, DimTag::kTokens}, 4}, 3);
  for (int i = 8; i < 24; ++i) x.Set(i, kNaN);
  const ir::LiveCounts live = LiveTokens(2);
  const Tensor rows =
      RunOne(Op::kReduce, {x}, {{"kind", std::string("sum")}, {"dims", Ints{1}}}, {}, live, nullptr, 0xff);
  EXPECT_FALSE(std::isnan(rows.At(1)));
  EXPECT_TRUE(std::isnan(rows.At(2)));
  const Tensor columns = RunOne(Op::kReduce, {x}, {{"kind", std::string("sum")}, {"dims", Ints{0}}}, {}, live);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(columns.At(i), static_cast<float>(x.At(i)) + static_cast<float>(x.At(4 + i)));
}

TEST(ReduceTest, CumsumAlongEachDimension) {
  for (const DType dtype : {DType::kI8, DType::kI32, DType::kI64, DType::kBF16, DType::kF32}) {
    const Tensor x = Random(dtype, {3, 4, 5}, 4);
    const int64_t stride[] = {20, 5, 1};
    for (int64_t dim = 0; dim < 3; ++dim) {
      const Tensor y = RunOne(Op::kCumsum, {x}, {{"dim", dim}});
      for (int64_t i = 0; i < 60; ++i) {
        double want = 0;
        const int64_t at = i / stride[dim] % x.type.dims[dim].size;
        for (int64_t k = 0; k <= at; ++k) want += x.At(i - (at - k) * stride[dim]);
        ASSERT_NEAR(y.At(i), want, IsFloat(dtype) ? Ulp(dtype, want) + 1e-5 : 0) << ToString(dtype) << dim;
      }
    }
  }
}

TEST(SortTest, StableInBothDirectionsForEveryDType) {
  for (const int64_t n : {1, 2, 100, 511, 512, 3000}) {
    for (const DType dtype : kAll) {
      for (const int64_t descending : {0, 1}) {
        const Tensor keys = Random(dtype, {2, n}, 5);  // few distinct values: many ties
        Tensor ids(ir::Type(DType::kI32, {2, n}));
        for (int64_t i = 0; i < 2 * n; ++i) ids.Set(i, static_cast<double>(i % n));
        const auto sorted = RunNode(Op::kSort, {keys, ids}, {{"dim", int64_t{1}}, {"descending", descending}});
        ASSERT_TRUE(sorted.has_value());
        for (int64_t r = 0; r < 2; ++r) {
          std::vector<int64_t> order(n);
          for (int64_t i = 0; i < n; ++i) order[i] = i;
          std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
            const double x = keys.At(r * n + a);
            const double y = keys.At(r * n + b);
            return descending != 0 ? x > y : x < y;
          });
          for (int64_t i = 0; i < n; ++i) {
            ASSERT_EQ((*sorted)[1].At(r * n + i), order[i]) << ToString(dtype) << " " << n << " " << descending;
            ASSERT_EQ((*sorted)[0].At(r * n + i), keys.At(r * n + order[i]));
          }
        }
      }
    }
  }
}

TEST(SortTest, NaNIsLastAndZerosAreEqual) {
  for (const int64_t n : {6, 600}) {
    for (const int64_t descending : {0, 1}) {
      Tensor keys(ir::Type(DType::kF32, {n}));
      Tensor ids(ir::Type(DType::kI32, {n}));
      const double pattern[] = {kNaN, -0.0, 0.0, kInf, -kInf, 1};
      for (int64_t i = 0; i < n; ++i) {
        keys.Set(i, pattern[i % 6]);
        ids.Set(i, static_cast<double>(i));
      }
      const auto sorted = *RunNode(Op::kSort, {keys, ids}, {{"dim", int64_t{0}}, {"descending", descending}});
      EXPECT_EQ(sorted[0].At(0), descending != 0 ? kInf : -kInf);
      for (int64_t i = 0; i < n; ++i) EXPECT_EQ(std::isnan(sorted[0].At(i)), i >= n - n / 6) << i;
      double last = -1;
      for (int64_t i = 0; i < n; ++i) {
        if (sorted[0].At(i) != 0) continue;
        EXPECT_GT(sorted[1].At(i), last);
        last = sorted[1].At(i);
      }
    }
  }
}

TEST(SortTest, AlongTheFirstDimension) {
  const Tensor keys = Make(DType::kF32, {3, 2}, {3, 1, 1, 2, 2, 3});
  const Tensor y = RunOne(Op::kSort, {keys}, {{"dim", int64_t{0}}});
  const double want[] = {1, 1, 2, 2, 3, 3};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(y.At(i), want[i]);
}

TEST(SortTest, TopKTakesTheLowerIndexOnTies) {
  const Tensor x = Make(DType::kF32, {2, 5}, {1, 3, 3, kNaN, 2, -1, -1, -kInf, -1, -2});
  const auto y = *RunNode(Op::kTopK, {x}, {{"k", int64_t{4}}});
  const double ids[] = {1, 2, 4, 0, 0, 1, 3, 4};
  const double values[] = {3, 3, 2, 1, -1, -1, -1, -2};
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(y[1].At(i), ids[i]) << i;
    EXPECT_EQ(y[0].At(i), values[i]) << i;
  }
  for (const DType dtype : kAll) {
    const Tensor many = Random(dtype, {3, 1000}, 6);
    const auto top = *RunNode(Op::kTopK, {many}, {{"k", int64_t{1000}}});
    Tensor iota(ir::Type(DType::kI32, {3, 1000}));
    for (int64_t i = 0; i < 3000; ++i) iota.Set(i, static_cast<double>(i % 1000));
    const auto sorted = *RunNode(Op::kSort, {many, iota}, {{"dim", int64_t{1}}, {"descending", int64_t{1}}});
    EXPECT_EQ(top[0].data, sorted[0].data);
    EXPECT_EQ(top[1].data, sorted[1].data);
  }
}

}  // namespace
}  // namespace deepinfer::interp
