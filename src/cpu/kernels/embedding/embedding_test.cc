#include "cpu/kernels/embedding/embedding.h"

#include "cpu/kernels/test_util.h"

namespace deepinfer {
namespace {

TEST(Embedding, DecodesScalesRoundsOnceAndClampsIds) {
  for (Encoding encoding : {Encoding::kF32, Encoding::kBF16, Encoding::kQ8_0, Encoding::kQ4_1}) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      const int64_t vocabulary = 5, width = 1088;  // more than one chunk, with a rest
      const std::vector<float> values = RandomFloats(vocabulary * width, 1);
      const int64_t row_bytes = static_cast<int64_t>(RowBytes(encoding, width));
      std::vector<uint8_t> table(vocabulary * row_bytes);
      std::vector<float> decoded(vocabulary * width);
      for (int64_t row = 0; row < vocabulary; ++row) {
        EncodeRow(encoding, &values[row * width], &table[row * row_bytes], width);
        DecodeRow(encoding, &table[row * row_bytes], &decoded[row * width], width);
      }
      const std::vector<int32_t> ids = {3, 0, -7, 99, 4};
      const std::vector<int64_t> rows = {3, 0, 0, 4, 4};
      Array out(dtype, static_cast<int64_t>(ids.size()) * width), expected = out;
      const EmbeddingArgs args = {ids.data(), table.data(), encoding, vocabulary, width, 25.25f, out.data()};
      const EmbeddingKernels* kernels = ChooseEmbedding(dtype);
      ASSERT_NE(kernels, nullptr);
      kernels->embedding(args, 0, 2);
      kernels->embedding(args, 2, 5);
      for (size_t t = 0; t < ids.size(); ++t) {
        for (int64_t i = 0; i < width; ++i) expected.Set(t * width + i, decoded[rows[t] * width + i] * 25.25f);
      }
      EXPECT_EQ(out.bytes(), expected.bytes()) << ToString(encoding) << " " << ToString(dtype);
    }
  }
  EXPECT_EQ(ChooseEmbedding(DType::kI32), nullptr);
}

}  // namespace
}  // namespace deepinfer
