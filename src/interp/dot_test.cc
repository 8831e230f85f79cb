#include <cmath>

#include "base/cpu_features.h"
#include "interp/dot_kernel.h"
#include "interp/testing.h"

namespace deepinfer::interp {
namespace {

using Ints = std::vector<int64_t>;
using ir::DimTag;
using ir::Op;

struct DotCase {
  std::vector<ir::Dim> lhs;
  std::vector<ir::Dim> rhs;
  Ints lhs_batch, rhs_batch, lhs_contract, rhs_contract;
};

ir::AttrMap Attrs(const DotCase& c, DType result) {
  return {{"lhs_batch", c.lhs_batch},
          {"rhs_batch", c.rhs_batch},
          {"lhs_contract", c.lhs_contract},
          {"rhs_contract", c.rhs_contract},
          {"dtype", std::string(ToString(result))}};
}

Ints Unflatten(int64_t flat, const Ints& sizes) {
  Ints index(sizes.size());
  for (size_t i = sizes.size(); i-- > 0;) {
    index[i] = flat % sizes[i];
    flat /= sizes[i];
  }
  return index;
}

// By definition, in double: result dimensions are batch, lhs free, rhs free.
std::vector<double> Naive(const Tensor& a, const Tensor& b, const DotCase& c, std::vector<double>* magnitude) {
  const Ints as = a.type.Shape();
  const Ints bs = b.type.Shape();
  const auto has = [](const Ints& list, int64_t v) { return std::find(list.begin(), list.end(), v) != list.end(); };
  Ints sizes;
  Ints a_free;
  Ints b_free;
  Ints depth;
  for (const int64_t d : c.lhs_batch) sizes.push_back(as[d]);
  for (int64_t d = 0; d < static_cast<int64_t>(as.size()); ++d) {
    if (!has(c.lhs_batch, d) && !has(c.lhs_contract, d)) a_free.push_back(d), sizes.push_back(as[d]);
  }
  for (int64_t d = 0; d < static_cast<int64_t>(bs.size()); ++d) {
    if (!has(c.rhs_batch, d) && !has(c.rhs_contract, d)) b_free.push_back(d), sizes.push_back(bs[d]);
  }
  for (const int64_t d : c.lhs_contract) depth.push_back(as[d]);
  int64_t total = 1;
  int64_t k_total = 1;
  for (const int64_t s : sizes) total *= s;
  for (const int64_t s : depth) k_total *= s;
  std::vector<double> out(total, 0);
  magnitude->assign(total, 0);
  for (int64_t n = 0; n < total; ++n) {
    const Ints at = Unflatten(n, sizes);
    Ints ai(as.size());
    Ints bi(bs.size());
    size_t next = 0;
    for (size_t i = 0; i < c.lhs_batch.size(); ++i) ai[c.lhs_batch[i]] = bi[c.rhs_batch[i]] = at[next++];
    for (const int64_t d : a_free) ai[d] = at[next++];
    for (const int64_t d : b_free) bi[d] = at[next++];
    for (int64_t k = 0; k < k_total; ++k) {
      const Ints kk = Unflatten(k, depth);
      for (size_t i = 0; i < kk.size(); ++i) ai[c.lhs_contract[i]] = bi[c.rhs_contract[i]] = kk[i];
      int64_t af = 0;
      int64_t bf = 0;
      for (size_t i = 0; i < as.size(); ++i) af = af * as[i] + ai[i];
      for (size_t i = 0; i < bs.size(); ++i) bf = bf * bs[i] + bi[i];
      out[n] += a.At(af) * b.At(bf);
      (*magnitude)[n] += std::fabs(a.At(af) * b.At(bf));
    }
  }
  return out;
}

TEST(DotTest, AnyArrangementOfDimensionsAndEveryDType) {
  const std::vector<DotCase> cases = {
      {{5, 70}, {45, 70}, {}, {}, {1}, {1}},                      // x . w^T
      {{5, 70}, {70, 64}, {}, {}, {1}, {0}},                      // x . w, the rhs in place
      {{70, 5}, {70, 33}, {}, {}, {0}, {0}},                      // both along columns
      {{3, 2, 4, 16}, {3, 2, 50, 16}, {0, 1}, {0, 1}, {3}, {3}},  // scores of uniform attention
      {{3, 2, 4, 50}, {3, 2, 50, 64}, {0, 1}, {0, 1}, {3}, {2}},  // weights times values
      {{2, 6, 7}, {6, 3, 2}, {0}, {2}, {1}, {0}},                 // batch last on the right
      {{4, 3, 5}, {5, 6, 3}, {}, {}, {1, 2}, {2, 0}},             // two contracted dimensions, crossed
      {{3, 1100}, {40, 1100}, {}, {}, {1}, {1}},                  // deeper than one pass
      {{300, 20}, {300, 20}, {}, {}, {1}, {1}},                   // more rows than one task
      {{7}, {7}, {}, {}, {0}, {0}},                               // a scalar
      {{3, 0}, {4, 0}, {}, {}, {1}, {1}},                         // nothing to add: zeros
      {{2, 3, 4}, {4, 5}, {}, {}, {2}, {0}},                      // two free dimensions
      {{2, 5, 3, 4}, {2, 3, 6, 4}, {0, 2}, {0, 1}, {3}, {3}},     // free dimension between batches
  };
  for (const DotCase& c : cases) {
    for (const DType dtype : kFloats) {
      const Tensor a = Random(dtype, c.lhs, 1, -1, 1);
      const Tensor b = Random(dtype, c.rhs, 2, -1, 1);
      for (const DType result : {DType::kF32, DType::kBF16}) {
        const Tensor y = RunOne(Op::kDotGeneral, {a, b}, Attrs(c, result), {}, AllLive(), nullptr, 0xff);
        std::vector<double> magnitude;
        const std::vector<double> want = Naive(a, b, c, &magnitude);
        ASSERT_EQ(y.size(), static_cast<int64_t>(want.size()));
        for (int64_t i = 0; i < y.size(); ++i) {
          ASSERT_NEAR(y.At(i), want[i], magnitude[i] * 1e-5 + Ulp(result, want[i]) / 2)
              << ToString(a.type) << ToString(b.type) << " at " << i;
        }
      }
    }
  }
}

TEST(DotTest, ARowsBitsDoNotDependOnTheOtherRowsOrOnThreads) {
  const Tensor w = Random(DType::kF32, {100, 1300}, 3, -1, 1);
  const Tensor all = Random(DType::kF32, {300, 1300}, 4, -1, 1);
  const DotCase c = {{}, {}, {}, {}, {1}, {1}};
  ThreadTeam team(3);
  const Tensor want = RunOne(Op::kDotGeneral, {all, w}, Attrs(c, DType::kF32));
  EXPECT_EQ(RunOne(Op::kDotGeneral, {all, w}, Attrs(c, DType::kF32), {}, AllLive(), &team).data, want.data);
  for (const int64_t rows : {1, 2, 7, 8, 13}) {
    Tensor some(ir::Type(DType::kF32, {rows, 1300}));
    std::copy_n(all.data.begin() + 100 * 1300 * 4, some.data.size(), some.data.begin());
    const Tensor y = RunOne(Op::kDotGeneral, {some, w}, Attrs(c, DType::kF32), {}, AllLive(), &team);
    EXPECT_TRUE(std::equal(y.data.begin(), y.data.end(), want.data.begin() + 100 * 100 * 4)) << rows;
  }
}

TEST(DotTest, LiveCountsBoundRowsAndBatches) {
  const DotCase plain = {{}, {}, {}, {}, {1}, {1}};
  const Tensor x = Random(DType::kF32, {{10, DimTag::kTokens}, 8}, 5);
  const Tensor w = Random(DType::kF32, {6, 8}, 6);
  const Tensor y = RunOne(Op::kDotGeneral, {x, w}, Attrs(plain, DType::kF32), {}, LiveTokens(3), nullptr, 0xff);
  for (int64_t i = 0; i < 60; ++i) EXPECT_EQ(std::isnan(y.At(i)), i / 6 >= 3) << i;
  const DotCase batched = {{}, {}, {0, 1}, {0, 1}, {2}, {2}};
  const Tensor q = Random(DType::kF32, {{4, DimTag::kTokens}, 2, 8}, 7);
  const Tensor k = Random(DType::kF32, {{4, DimTag::kTokens}, 2, 8, 5}, 8);
  const Tensor s = RunOne(Op::kDotGeneral, {q, k}, Attrs(batched, DType::kF32), {}, LiveTokens(1), nullptr, 0xff);
  for (int64_t i = 0; i < s.size(); ++i) EXPECT_EQ(std::isnan(s.At(i)), i / 10 >= 1) << i;
}

TEST(DotTest, EveryInstructionSetAgrees) {
  std::vector<std::pair<std::string, DotKernel>> kernels = {{"portable", DotPortable()}};
#if defined(__x86_64__)
  if (MachineHas(Isa::kAvx2)) kernels.emplace_back("avx2", DotAvx2());
  if (MachineHas(Isa::kAvx512)) kernels.emplace_back("avx512", DotAvx512());
#endif
  constexpr int64_t kK = 37;
  for (const auto& [name, kernel] : kernels) {
    for (int64_t m = 1; m <= 17; ++m) {
      const Tensor a = Random(DType::kF32, {m, kK}, 9, -1, 1);
      const Tensor b = Random(DType::kF32, {kK, kernel.columns}, 10, -1, 1);
      std::vector<float> c(m * kernel.columns, 0.5f);
      const auto* af = reinterpret_cast<const float*>(a.data.data());
      const auto* bf = reinterpret_cast<const float*>(b.data.data());
      for (const bool first : {true, false}) {
        kernel.tile(af, kK, bf, kernel.columns, c.data(), kernel.columns, m, kK, first);
        for (int64_t i = 0; i < m * kernel.columns; ++i) {
          double want = 0;
          for (int64_t k = 0; k < kK; ++k) {
            want += a.At(i / kernel.columns * kK + k) * b.At(k * kernel.columns + i % kernel.columns);
          }
          ASSERT_NEAR(c[i], want * (first ? 1 : 2), 1e-5) << name << " m=" << m << " first=" << first;
        }
      }
    }
  }
}

}  // namespace
}  // namespace deepinfer::interp
