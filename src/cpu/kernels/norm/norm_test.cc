#include "cpu/kernels/norm/norm.h"

#include "cpu/kernels/test_util.h"

namespace deepinfer {
namespace {

std::vector<double> Expected(const Array& x, int64_t row, int64_t width, const std::vector<float>& weight, float eps,
                             float offset) {
  double squares = 0;
  for (int64_t i = 0; i < width; ++i) squares += double{x[row * width + i]} * x[row * width + i];
  const double scale = 1 / std::sqrt(squares / width + eps);
  std::vector<double> out(width);
  for (int64_t i = 0; i < width; ++i) out[i] = x[row * width + i] * scale * (double{weight[i]} + offset);
  return out;
}

TEST(RmsNorm, MatchesDoubleForAnyWidth) {
  ForEachIsaAndActivation([](Isa isa, DType dtype) {
    for (int64_t width : {1, 3, 16, 63, 64, 65, 576, 640}) {
      const int64_t rows = 3;
      const Array x(dtype, RandomFloats(rows * width, 1, 3));
      const std::vector<float> weight = RandomFloats(width, 2);
      Array out(dtype, rows * width);
      const RmsNormArgs args = {x.data(), width, weight.data(), out.data(), width, width, 1e-5f, 1.0f};
      ChooseNorm(isa, dtype)->rms_norm(args, 0, rows);
      for (int64_t row = 0; row < rows; ++row) {
        const std::vector<double> expected = Expected(x, row, width, weight, args.eps, args.offset);
        for (int64_t i = 0; i < width; ++i) {
          EXPECT_NEAR(out[row * width + i], expected[i], std::fabs(expected[i]) * (Epsilon(dtype) + 1e-6) + 1e-30)
              << width << " " << row << " " << i;
        }
      }
    }
  });
}

TEST(AddRmsNorm, StoresTheRoundedSumAndNormsIt) {
  ForEachIsaAndActivation([](Isa isa, DType dtype) {
    const int64_t rows = 4, width = 100;
    const Array x(dtype, RandomFloats(rows * width, 1)), residual(dtype, RandomFloats(rows * width, 2));
    const std::vector<float> weight = RandomFloats(width, 3);
    Array sum = residual;  // in place, as the step does it
    Array out(dtype, rows * width), norm_of_sum(dtype, rows * width);
    AddRmsNormArgs args;
    args.norm = {x.data(), width, weight.data(), out.data(), width, width, 1e-6f, 0.0f};
    args.residual = sum.data();
    args.residual_stride = width;
    args.sum = sum.data();
    args.sum_stride = width;
    ChooseNorm(isa, dtype)->add_rms_norm(args, 0, rows);
    Array expected_sum(dtype, rows * width);
    for (int64_t i = 0; i < rows * width; ++i) expected_sum.Set(i, residual[i] + x[i]);
    EXPECT_EQ(sum.bytes(), expected_sum.bytes());
    const RmsNormArgs plain = {sum.data(), width, weight.data(), norm_of_sum.data(), width, width, 1e-6f, 0.0f};
    ChooseNorm(isa, dtype)->rms_norm(plain, 0, rows);
    EXPECT_EQ(out.bytes(), norm_of_sum.bytes());
  });
}

TEST(RmsNorm, ARowsBitsDependOnTheRowAlone) {
  ForEachIsaAndActivation([](Isa isa, DType dtype) {
    const int64_t rows = 5, width = 77, stride = 80;
    const Array x(dtype, RandomFloats(rows * stride, 4));
    const std::vector<float> weight = RandomFloats(width, 5);
    Array together(dtype, rows * width), apart(dtype, rows * width);
    RmsNormArgs args = {x.data(), stride, weight.data(), together.data(), width, width, 1e-5f, 0.0f};
    const NormKernels* kernels = ChooseNorm(isa, dtype);
    kernels->rms_norm(args, 0, rows);
    for (int64_t row = rows - 1; row >= 0; --row) {
      RmsNormArgs one = args;
      one.x = x.At(row * stride);
      one.out = apart.At(row * width);
      kernels->rms_norm(one, 0, 1);
    }
    EXPECT_EQ(together.bytes(), apart.bytes());
  });
}

TEST(RmsNorm, NanStaysInItsRow) {
  ForEachIsaAndActivation([](Isa isa, DType dtype) {
    const int64_t width = 40;
    Array x(dtype, RandomFloats(2 * width, 6));
    x.Set(3, NAN);
    const std::vector<float> weight(width, 1);
    Array out(dtype, 2 * width);
    const RmsNormArgs args = {x.data(), width, weight.data(), out.data(), width, width, 1e-5f, 0.0f};
    ChooseNorm(isa, dtype)->rms_norm(args, 0, 2);
    for (int64_t i = 0; i < width; ++i) {
      EXPECT_TRUE(std::isnan(out[i]));
      EXPECT_FALSE(std::isnan(out[width + i]));
    }
  });
}

TEST(ChooseNorm, OtherTypesHaveNoKernel) {
  EXPECT_EQ(ChooseNorm(Isa::kPortable, DType::kF16), nullptr);
}

}  // namespace
}  // namespace deepinfer
