#include "cpu/kernels/elementwise/elementwise.h"

#include <algorithm>
#include <limits>

#include "cpu/kernels/test_util.h"

namespace deepinfer {
namespace {

TEST(Binary, RoundsOnceAtAnyLengthAndSplit) {
  ForEachIsaAndActivation([](Isa isa, DType dtype) {
    const int64_t count = 83;
    const Array a(dtype, RandomFloats(count, 1)), b(dtype, RandomFloats(count, 2));
    for (int op = 0; op < 6; ++op) {
      Array out(dtype, count), expected(dtype, count);
      const BinaryKernel kernel = ChooseBinary(isa, static_cast<BinaryOp>(op), dtype);
      ASSERT_NE(kernel.run, nullptr);
      kernel.run(a.data(), b.data(), out.data(), 0, 41);
      kernel.run(a.data(), b.data(), out.data(), 41, count);
      for (int64_t i = 0; i < count; ++i) {
        const float x = a[i], y = b[i];
        const float results[] = {x + y, x - y, x * y, x / y, std::max(x, y), std::min(x, y)};
        expected.Set(i, results[op]);
      }
      EXPECT_EQ(out.bytes(), expected.bytes()) << kernel.name;
    }
  });
}

TEST(Binary, MaximumAndMinimumKeepNan) {
  ForEachIsaAndActivation([](Isa isa, DType dtype) {
    const Array a(dtype, {NAN, 1, 2}), b(dtype, {1, NAN, 3});
    Array out(dtype, 3);
    for (BinaryOp op : {BinaryOp::kMax, BinaryOp::kMin}) {
      ChooseBinary(isa, op, dtype).run(a.data(), b.data(), out.data(), 0, 3);
      EXPECT_TRUE(std::isnan(out[0]));
      EXPECT_TRUE(std::isnan(out[1]));
      EXPECT_EQ(out[2], op == BinaryOp::kMax ? 3 : 2);
    }
  });
}

TEST(Binary, IntegersWrap) {
  const std::vector<int32_t> a = {1, std::numeric_limits<int32_t>::max(), -5}, b = {2, 1, 7};
  std::vector<int32_t> out(3);
  ChooseBinary(Isa::kPortable, BinaryOp::kAdd, DType::kI32).run(a.data(), b.data(), out.data(), 0, 3);
  EXPECT_EQ(out, (std::vector<int32_t>{3, std::numeric_limits<int32_t>::min(), 2}));
  ChooseBinary(Isa::kPortable, BinaryOp::kMax, DType::kI32).run(a.data(), b.data(), out.data(), 0, 3);
  EXPECT_EQ(out, (std::vector<int32_t>{2, std::numeric_limits<int32_t>::max(), 7}));
  EXPECT_EQ(ChooseBinary(Isa::kPortable, BinaryOp::kDiv, DType::kI32).run, nullptr);
  EXPECT_EQ(ChooseBinary(Isa::kPortable, BinaryOp::kAdd, DType::kI8).run, nullptr);
}

TEST(Convert, EveryPairOfFloatsEqualsTheScalarConversion) {
  ForEachIsa([](Isa isa) {
    std::vector<float> values = RandomFloats(100, 3, 100);
    for (float v :
         {0.0f, -0.0f, 1e30f, -1e30f, 65519.0f, 65520.0f, 1.00390625f, 1.01171875f, 6e-5f, INFINITY, -INFINITY, NAN}) {
      values.push_back(v);
    }
    for (DType from : {DType::kF32, DType::kBF16, DType::kF16}) {
      for (DType to : {DType::kF32, DType::kBF16, DType::kF16}) {
        const Array in(from, values);
        Array out(to, in.size());
        const ConvertKernel kernel = ChooseConvert(isa, from, to);
        ASSERT_NE(kernel.run, nullptr);
        kernel.run(in.data(), out.data(), 0, 33);
        kernel.run(in.data(), out.data(), 33, in.size());
        Array expected(to, in.size());
        for (int64_t i = 0; i < in.size(); ++i) expected.Set(i, in[i]);
        for (int64_t i = 0; i < in.size(); ++i) {
          if (std::isnan(in[i])) {
            EXPECT_TRUE(std::isnan(out[i])) << kernel.name;
          } else {
            EXPECT_EQ(out[i], expected[i]) << kernel.name << " " << in[i];
          }
        }
      }
    }
  });
}

TEST(Convert, IntegersRoundOnceAndFloatsSaturate) {
  const std::vector<int32_t> in = {0, -3, 16777217, 2147483647, -2147483647 - 1, 16842753};
  std::vector<float> f32(in.size());
  ChooseConvert(Isa::kPortable, DType::kI32, DType::kF32).run(in.data(), f32.data(), 0, 6);
  for (size_t i = 0; i < in.size(); ++i) EXPECT_EQ(f32[i], static_cast<float>(in[i]));
  std::vector<uint16_t> bf16(in.size());
  ChooseConvert(Isa::kPortable, DType::kI32, DType::kBF16).run(in.data(), bf16.data(), 0, 6);
  // 16842753 = 2^24 + 2^16 + 1 is just above the middle of two bf16 neighbours; by way of f32 it would sit on it.
  EXPECT_EQ(BF16ToF32(bf16[5]), 16908288.0f);

  const std::vector<float> floats = {1.9f, -1.9f, NAN, 3e9f, -3e9f, INFINITY};
  std::vector<int32_t> out(floats.size());
  ChooseConvert(Isa::kPortable, DType::kF32, DType::kI32).run(floats.data(), out.data(), 0, 6);
  EXPECT_EQ(out, (std::vector<int32_t>{1, -1, 0, 2147483647, -2147483647 - 1, 2147483647}));
  EXPECT_EQ(ChooseConvert(Isa::kPortable, DType::kI8, DType::kF32).run, nullptr);
  EXPECT_NE(ChooseConvert(Isa::kPortable, DType::kI8, DType::kI8).run, nullptr);
}

}  // namespace
}  // namespace deepinfer
