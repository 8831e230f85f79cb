#include "cpu/kernels/copy/copy.h"

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
