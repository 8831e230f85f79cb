#include "cpu/kernels/copy/copy.h"

#include <algorithm>

#include "cpu/kernels/test_util.h"

namespace deepinfer {
namespace {

TEST(PagedSlotIndices, OutOfRangeBecomesZeroBeforeTheDivision) {
  const std::vector<int32_t> slots = {0, 31, 32, 95, 96, -1, -33, 2147483647};
  std::vector<int32_t> block(8), offset(8);
  const PagedSlotArgs args = {slots.data(), 32, 3, block.data(), offset.data()};
  PagedSlotIndices(args, 0, 3);
  PagedSlotIndices(args, 3, 8);
  EXPECT_EQ(block, (std::vector<int32_t>{0, 0, 1, 2, 0, 0, 0, 0}));
  EXPECT_EQ(offset, (std::vector<int32_t>{0, 31, 0, 31, 0, 0, 0, 0}));
}

TEST(IndexPut, PagedWritesItsRowsAndNothingElse) {
  ForEachIsa([](Isa isa) {
    for (DType from : {DType::kF32, DType::kBF16}) {
      for (DType to : {DType::kF32, DType::kBF16, DType::kF16}) {
        const int64_t blocks = 4, heads = 2, block_size = 3, head_size = 21, tokens = 3, stride = 50;
        const Array rows(from, RandomFloats(tokens * stride, 1));
        Array cache(to, blocks * heads * block_size * head_size, 7), expected = cache;
        const std::vector<int32_t> block = {1, 3, 9}, offset = {2, 0, 0};  // the last is outside and skipped
        const IndexPutKernels kernels = ChooseIndexPut(isa, from, to);
        ASSERT_NE(kernels.paged, nullptr);
        kernels.paged(
            {cache.data(), blocks, heads, block_size, head_size, block.data(), offset.data(), rows.data(), stride}, 0,
            tokens);
        for (int64_t t = 0; t < 2; ++t) {
          for (int64_t h = 0; h < heads; ++h) {
            for (int64_t d = 0; d < head_size; ++d) {
              expected.Set(((block[t] * heads + h) * block_size + offset[t]) * head_size + d,
                           rows[t * stride + h * head_size + d]);
            }
          }
        }
        EXPECT_EQ(cache.bytes(), expected.bytes()) << kernels.name;
      }
    }
  });
}

// The codes of f8e4m3fn are those of base/half.h, for every kind of value.
TEST(QuantiseRows, F8SaturatesAndKeepsNaN) {
  std::vector<float> values = {0.0f,      -0.0f,   448,      464,        465,     1000,    -1000,      INFINITY,
                               -INFINITY, NAN,     0x1p-10f, 0x1.8p-10f, 0x1p-9f, 0x1p-7f, -0x1.fp-7f, 0x1p-6f,
                               0x1.ep-7f, 1.0625f, 1.1875f,  240,        256,     1e-40f};
  for (const float value : RandomFloats(300, 5, 20)) values.push_back(value);
  ForEachIsaAndActivation([&](Isa isa, DType from) {
    const Array rows(from, values);
    std::vector<uint8_t> codes(values.size());
    const QuantiseRowsKernel kernel = ChooseQuantiseRows(isa, from, DType::kF8E4M3);
    ASSERT_NE(kernel.run, nullptr);
    const int64_t width = static_cast<int64_t>(values.size());
    kernel.run({rows.data(), width, codes.data(), nullptr, 1}, 0, 1);
    for (int64_t i = 0; i < width; ++i) {
      if (std::isnan(rows[i])) {
        EXPECT_EQ(codes[i] & 0x7f, 0x7f);
      } else {
        EXPECT_EQ(codes[i], F32ToF8E4M3(rows[i])) << rows[i];
      }
    }
    kernel.run({rows.data(), width, codes.data(), nullptr, 0.5f}, 0, 1);
    for (int64_t i = 0; i < width; ++i) {
      if (std::isnan(rows[i])) continue;
      EXPECT_EQ(codes[i], F32ToF8E4M3(rows[i] * 0.5f)) << rows[i];
    }
  });
}

TEST(QuantiseRows, I8RoundsToTheNearestOf127StepsAndANaNTakesItsRow) {
  ForEachIsaAndActivation([](Isa isa, DType from) {
    const int64_t width = 37, count = 5;
    Array rows(from, RandomFloats(count * width, 6));
    for (int64_t i = 0; i < width; ++i) rows.Set(2 * width + i, 0);
    rows.Set(3 * width + 36, NAN);
    rows.Set(4 * width + 1, -INFINITY);
    std::vector<int8_t> codes(count * width, 99);
    std::vector<float> scales(count, -1);
    const QuantiseRowsKernel kernel = ChooseQuantiseRows(isa, from, DType::kI8);
    kernel.run({rows.data(), width, codes.data(), scales.data(), 1}, 0, 3);
    kernel.run({rows.data(), width, codes.data(), scales.data(), 1}, 3, 5);
    for (int64_t row = 0; row < 2; ++row) {
      int largest = 0;
      for (int64_t i = 0; i < width; ++i) {
        const int code = codes[row * width + i];
        largest = std::max(largest, std::abs(code));
        // Half a step, and the rounding of the quotient.
        EXPECT_LE(std::fabs(code * double{scales[row]} - rows[row * width + i]), scales[row] * (0.5 + 127 * 0x1p-23));
      }
      EXPECT_EQ(largest, 127);
    }
    for (int64_t i = 0; i < width; ++i) EXPECT_EQ(codes[2 * width + i], 0);
    EXPECT_TRUE(scales[2] > 0 && scales[2] < 1e-37f);
    EXPECT_TRUE(std::isnan(scales[3]));
    EXPECT_TRUE(std::isinf(scales[4]));
    EXPECT_EQ(codes[4 * width], 0);
    EXPECT_EQ(codes[4 * width + 1], 0);
  });
}

TEST(IndexPut, RowsOfIntegersAsTheTokenStoreHasThem) {
  std::vector<int32_t> store = {-1, -1, -1, -1};
  const std::vector<int32_t> index = {2, 0, 4, -1}, rows = {10, 11, 12, 13};
  const IndexPutKernels kernels = ChooseIndexPut(Isa::kPortable, DType::kI32, DType::kI32);
  ASSERT_NE(kernels.rows, nullptr);
  kernels.rows({store.data(), 4, 1, index.data(), rows.data(), 1}, 0, 4);
  EXPECT_EQ(store, (std::vector<int32_t>{11, -1, 10, -1}));
  EXPECT_EQ(ChooseIndexPut(Isa::kPortable, DType::kI32, DType::kF32).rows, nullptr);
}

TEST(GatherRows, CopiesAndClamps) {
  const Array x(DType::kBF16, RandomFloats(5 * 7, 2));
  const std::vector<int32_t> index = {4, 0, 0, 99, -3};
  const std::vector<int64_t> from = {4, 0, 0, 4, 0};
  Array out(DType::kBF16, 5 * 7);
  const GatherRowsArgs args = {x.data(), 5, 14, index.data(), out.data(), 14, 14};
  GatherRows(args, 0, 2);
  GatherRows(args, 2, 5);
  for (int64_t r = 0; r < 5; ++r) {
    for (int64_t i = 0; i < 7; ++i) EXPECT_EQ(out[r * 7 + i], x[from[r] * 7 + i]);
  }
}

}  // namespace
}  // namespace deepinfer
