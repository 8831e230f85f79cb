#include "cpu/kernels/glu/glu.h"

#include "cpu/kernels/test_util.h"

namespace deepinfer {
namespace {

double Silu(double x) {
  return x / (1 + std::exp(-x));
}
double GeluTanh(double x) {
  return 0.5 * x * (1 + std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

TEST(Glu, MatchesDoubleOverTheWholeRange) {
  ForEachIsaAndActivation([](Isa isa, DType dtype) {
    std::vector<float> gates = RandomFloats(400, 1, 4);
    for (float x = -120; x <= 120; x += 0.37f) gates.push_back(x);
    for (float x : {0.0f, 1e-30f, -1e-10f, 1e20f, -1e20f, 88.7f, -88.7f, 104.0f, -104.0f}) gates.push_back(x);
    const int64_t width = static_cast<int64_t>(gates.size());
    const Array gate(dtype, gates), up(dtype, RandomFloats(width, 2));
    Array out(dtype, width);
    const GluArgs args = {gate.data(), width, up.data(), width, out.data(), width, width};
    const GluKernels* kernels = ChooseGlu(isa, dtype);
    for (bool silu : {true, false}) {
      (silu ? kernels->silu : kernels->gelu_tanh)(args, 0, 1);
      for (int64_t i = 0; i < width; ++i) {
        const double expected = (silu ? Silu(gate[i]) : GeluTanh(gate[i])) * up[i];
        // Large negative arguments multiply the relative error of the exponential's argument.
        EXPECT_NEAR(out[i], expected, std::fabs(expected) * (Epsilon(dtype) + 1e-6) + 1e-7 * std::fabs(up[i]))
            << gate[i] << " * " << up[i];
      }
    }
  });
}

TEST(Glu, PlaceInTheRowDoesNotChangeBits) {
  ForEachIsaAndActivation([](Isa isa, DType dtype) {
    // One value at every place, with widths that end in tails; gate and up are halves of one row.
    const GluKernels* kernels = ChooseGlu(isa, dtype);
    const int64_t rows = 3, width = 37;
    std::vector<float> values(rows * 2 * width, 1.2345f);
    const Array both(dtype, values);
    Array out(dtype, rows * width);
    const GluArgs args = {both.data(), 2 * width, both.At(width), 2 * width, out.data(), width, width};
    kernels->silu(args, 0, 2);
    kernels->silu(args, 2, rows);
    for (int64_t i = 1; i < rows * width; ++i) EXPECT_EQ(out[i], out[0]);
  });
}

TEST(Glu, NanGoesThrough) {
  ForEachIsaAndActivation([](Isa isa, DType dtype) {
    const Array gate(dtype, {1, NAN, 2}), up(dtype, {1, 1, NAN});
    Array out(dtype, 3);
    const GluArgs args = {gate.data(), 3, up.data(), 3, out.data(), 3, 3};
    ChooseGlu(isa, dtype)->gelu_tanh(args, 0, 1);
    EXPECT_FALSE(std::isnan(out[0]));
    EXPECT_TRUE(std::isnan(out[1]));
    EXPECT_TRUE(std::isnan(out[2]));
  });
}

}  // namespace
}  // namespace deepinfer
