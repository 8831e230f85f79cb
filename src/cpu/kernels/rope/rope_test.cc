#include "cpu/kernels/rope/rope.h"

#include "cpu/kernels/test_util.h"

namespace deepinfer {
namespace {

TEST(RopeTable, IsWithinAnUlpOfTheProductsCosine) {
  const std::vector<int32_t> positions = {0, 1, 17, 4095, 131071, 1000000};
  const std::vector<float> inv_freq = {1.0f, 0.31622776f, 0.0177827941f, 1e-4f};
  std::vector<float> cos(positions.size() * 4), sin(positions.size() * 4);
  RopeTable({positions.data(), inv_freq.data(), 4, 1.0f, cos.data(), sin.data()}, 0, 6);
  for (size_t t = 0; t < positions.size(); ++t) {
    for (int i = 0; i < 4; ++i) {
      const float angle = static_cast<float>(positions[t]) * inv_freq[i];
      EXPECT_NEAR(cos[t * 4 + i], std::cos(double{angle}), 6e-8);
      EXPECT_NEAR(sin[t * 4 + i], std::sin(double{angle}), 6e-8);
    }
  }
  std::vector<float> scaled(4), unused(4);
  RopeTable({&positions[2], inv_freq.data(), 4, 1.5f, scaled.data(), unused.data()}, 0, 1);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(scaled[i], cos[2 * 4 + i] * 1.5f);
}

struct Shape {
  int64_t head_size, half;
};

TEST(Rope, RotatesPairsAndCopiesTheRest) {
  ForEachIsaAndActivation([](Isa isa, DType dtype) {
    for (Shape shape : {Shape{64, 32}, Shape{80, 20}, Shape{10, 3}, Shape{256, 128}, Shape{128, 0}}) {
      for (bool interleaved : {false, true}) {
        const int64_t tokens = 3, heads = 2, stride = heads * shape.head_size + 5;
        const Array x(dtype, RandomFloats(tokens * stride, 1));
        const std::vector<float> angles = RandomFloats(tokens * shape.half + 1, 2, 10);
        std::vector<float> cos, sin;
        for (float angle : angles) cos.push_back(std::cos(angle)), sin.push_back(std::sin(angle));
        Array out(dtype, tokens * stride), in_place = x;
        RopeArgs args = {x.data(),        stride,     out.data(), stride,     heads,
                         shape.head_size, cos.data(), sin.data(), shape.half, interleaved};
        const RopeKernels* kernels = ChooseRope(isa, dtype);
        kernels->rope(args, 0, 1);
        kernels->rope(args, 1, tokens);
        args.x = args.out = in_place.data();
        kernels->rope(args, 0, tokens);
        for (int64_t t = 0; t < tokens; ++t) {
          for (int64_t h = 0; h < heads; ++h) {
            const int64_t base = t * stride + h * shape.head_size;
            std::vector<double> expected(shape.head_size);
            for (int64_t i = 0; i < shape.head_size; ++i) expected[i] = x[base + i];
            for (int64_t i = 0; i < shape.half; ++i) {
              const int64_t a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + shape.half;
              const double c = cos[t * shape.half + i], s = sin[t * shape.half + i];
              expected[a] = x[base + a] * c - x[base + b] * s;
              expected[b] = x[base + b] * c + x[base + a] * s;
            }
            for (int64_t i = 0; i < shape.head_size; ++i) {
              EXPECT_NEAR(out[base + i], expected[i], std::fabs(expected[i]) * Epsilon(dtype) + 1e-6);
              EXPECT_EQ(out[base + i], in_place[base + i]);
            }
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace deepinfer
