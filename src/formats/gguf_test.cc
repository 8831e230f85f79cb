#include "formats/gguf.h"

#include <gtest/gtest.h>

#include "formats/gguf_check.h"
#include "formats/gguf_split.h"
#include "formats/gguf_tensors.h"
#include "formats/gguf_writer.h"
#include "formats/test_files.h"

namespace deepinfer::formats {
namespace {

TEST(GgufTest, ReadsEveryKindOfMetadata) {
  GgufWriter writer;
  writer.AddMetadata("a.bool", true)
      .AddMetadata("a.i32", int32_t{-5})
      .AddMetadata("a.u32", uint32_t{4000000000u})
      .AddMetadata("a.i64", int64_t{-6000000000})
      .AddMetadata("a.u64", uint64_t{1} << 63)
      .AddMetadata("a.small_u64", uint64_t{12})
      .AddMetadata("a.f32", 0.5f)
      .AddMetadata("a.f64", 1e-300)
      .AddMetadata("a.string", "text")
      .AddMetadata("a.strings", std::vector<std::string>{"x", "", "yz"})
      .AddMetadata("a.ints", std::vector<int32_t>{1, -2})
      .AddMetadata("a.floats", std::vector<float>{0.25f})
      .AddMetadata("a.bools", std::vector<bool>{true, false})
      .AddRawMetadata("a.u8", 0, "\xff")
      .AddRawMetadata("a.i8", 1, "\xff")
      .AddRawMetadata("a.u16", 2, "\xff\xff")
      .AddRawMetadata("a.i16", 3, "\xff\xff");
  const std::string bytes = writer.Build();
  const auto file = GgufFile::Parse(AsBytes(bytes), "m.gguf");
  ASSERT_TRUE(file) << file.error().ToString();
  EXPECT_EQ(*file->OptionalBool("a.bool", false), true);
  EXPECT_EQ(*file->RequiredInt("a.i32"), -5);
  EXPECT_EQ(*file->RequiredInt("a.u32"), 4000000000);
  EXPECT_EQ(*file->RequiredInt("a.i64"), -6000000000);
  EXPECT_EQ(*file->RequiredInt("a.small_u64"), 12);
  EXPECT_EQ(*file->RequiredInt("a.u8"), 255);
  EXPECT_EQ(*file->RequiredInt("a.i8"), -1);
  EXPECT_EQ(*file->RequiredInt("a.u16"), 65535);
  EXPECT_EQ(*file->RequiredInt("a.i16"), -1);
  EXPECT_EQ(*file->RequiredFloat("a.f32"), 0.5);
  EXPECT_EQ(*file->RequiredFloat("a.f64"), 1e-300);
  EXPECT_EQ(*file->RequiredFloat("a.i32"), -5.0);
  EXPECT_EQ(*file->RequiredString("a.string"), "text");
  EXPECT_EQ(**file->Strings("a.strings"), (std::vector<std::string_view>{"x", "", "yz"}));
  EXPECT_EQ(**file->Ints("a.ints"), (std::vector<int64_t>{1, -2}));
  EXPECT_EQ(**file->Floats("a.floats"), (std::vector<double>{0.25}));
  EXPECT_EQ(std::get<std::vector<bool>>(file->metadata().at("a.bools")), (std::vector<bool>{true, false}));
  EXPECT_EQ(std::get<uint64_t>(file->metadata().at("a.u64")), uint64_t{1} << 63);

  EXPECT_EQ(*file->Strings("missing"), nullptr);
  EXPECT_EQ(*file->OptionalInt("missing", 3), 3);
  EXPECT_EQ(*file->OptionalString("missing", "d"), "d");
  EXPECT_EQ(*file->OptionalFloat("missing", 2.5), 2.5);
  EXPECT_EQ(file->RequiredInt("missing").error().ToString(), "m.gguf: key missing: the key is missing");
  EXPECT_EQ(file->RequiredInt("a.string").error().ToString(),
            "m.gguf: key a.string: is a string where an integer is expected");
  EXPECT_FALSE(file->RequiredInt("a.u64"));
  EXPECT_FALSE(file->OptionalInt("a.f32", 0));
  EXPECT_FALSE(file->OptionalBool("a.i32", false));
  EXPECT_FALSE(file->OptionalString("a.ints", ""));
  EXPECT_FALSE(file->Ints("a.strings"));
}

TEST(GgufTest, TensorsRoundTripInEveryEncodingThatCanBeWritten) {
  std::vector<float> values(3 * 256);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17) - 8.0f;
  for (const uint32_t alignment : {8u, 32u, 4096u}) {
    GgufWriter writer(alignment);
    for (int i = 0; i < kNumEncodings; ++i) {
      const auto encoding = static_cast<Encoding>(i);
      if (GgufTypeOf(encoding)) writer.AddTensor(ToString(encoding), encoding, {3, 256}, values);
    }
    writer.AddTensor("vector", Encoding::kF32, {5}, std::span(values).first(5));
    const std::string bytes = writer.Build();
    const auto file = GgufFile::Parse(AsBytes(bytes), "m.gguf");
    ASSERT_TRUE(file) << file.error().ToString();
    EXPECT_EQ(file->FindTensor("nothing"), nullptr);
    EXPECT_EQ(file->FindTensor("vector")->shape, (std::vector<int64_t>{5}));
    for (const GgufTensor& tensor : file->tensors()) {
      if (tensor.name == "vector") continue;
      EXPECT_EQ(tensor.name, ToString(tensor.encoding));
      EXPECT_EQ(tensor.shape, (std::vector<int64_t>{3, 256}));
      EXPECT_EQ((tensor.data.data() - AsBytes(bytes).data()) % alignment, 0);
      std::string expected(RowBytes(tensor.encoding, 256) * 3, '\0');
      EncodeRow(tensor.encoding, values.data(), expected.data(), 3 * 256);
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()), expected);
    }
  }
}

TEST(GgufTest, MetadataAndTensorsCanBeCopiedPieceByPiece) {
  const std::vector<float> values(64, 2.0f);
  GgufWriter writer;
  writer.AddMetadata("a.u32", uint32_t{7})
      .AddMetadata("a.text", "text")
      .AddMetadata("a.flags", std::vector<bool>{true});
  writer.AddTensor("w", Encoding::kQ8_0, {2, 32}, values)
      .AddTensor("v", Encoding::kF32, {3}, std::vector<float>{1, 2, 3});
  const std::string bytes = writer.Build();
  const auto file = GgufFile::Parse(AsBytes(bytes), "m.gguf");
  ASSERT_TRUE(file);
  GgufWriter copy;
  for (const GgufRawPair& pair : file->raw_metadata()) copy.AddRawMetadata(pair.key, pair.type, pair.bytes);
  for (const GgufTensor& tensor : file->tensors()) {
    copy.AddTensorFrom(tensor.name, tensor.encoding, tensor.shape, [&tensor](const GgufWriter::Sink& sink) -> Status {
      DI_RETURN_IF_ERROR(sink(tensor.data.first(5)));
      return sink(tensor.data.subspan(5));
    });
  }
  EXPECT_EQ(copy.Build(), bytes);
  const TempFolder folder;
  ASSERT_TRUE(copy.Write(folder.File("m.gguf")));
  EXPECT_EQ(GgufFile::Open(folder.File("m.gguf"))->header_bytes().size(), file->header_bytes().size());
}

TEST(GgufTest, AnErrorWhileWritingLeavesNoFile) {
  const TempFolder folder;
  GgufWriter writer;
  writer.AddTensorFrom("w", Encoding::kF32, {4}, [](const GgufWriter::Sink&) -> Status {
    return MakeError(ErrorCode::kDataLoss, "w", "broken");
  });
  EXPECT_EQ(writer.Write(folder.File("m.gguf")).error().message, "broken");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_FALSE(GgufWriter().Write("/nonexistent/m.gguf"));
}

TEST(GgufTest, OpensFilesAndSurvivesMoves) {
  TempFolder folder;
  const std::vector<float> values(32, 2.0f);
  ASSERT_TRUE(GgufWriter().AddTensor("w", Encoding::kQ8_0, {1, 32}, values).Write(folder.File("m.gguf")));
  auto opened = GgufFile::Open(folder.File("m.gguf"));
  ASSERT_TRUE(opened) << opened.error().ToString();
  const GgufFile moved = std::move(*opened);
  std::vector<float> decoded(32);
  DecodeRow(Encoding::kQ8_0, moved.FindTensor("w")->data.data(), decoded.data(), 32);
  EXPECT_NEAR(decoded[7], 2.0f, 1e-2f);
  EXPECT_EQ(GgufFile::Open(folder.File("none.gguf")).error().code, ErrorCode::kNotFound);
}

TEST(GgufTest, TypesWithoutAnEncodingAreListedButMarked) {
  const std::string bytes = GgufWriter().AddRawTensor("w", /*IQ2_S=*/22, {256}, std::string(82, 'x')).Build();
  const auto file = GgufFile::Parse(AsBytes(bytes), "m.gguf");
  ASSERT_TRUE(file) << file.error().ToString();
  EXPECT_STREQ(file->tensors()[0].unsupported_type, "IQ2_S");
  EXPECT_EQ(file->tensors()[0].data.size(), 82u);
}

TEST(GgufTest, VocabularyMustAgreeWithItselfAndTheEmbedding) {
  const std::vector<float> values(3 * 8);
  const auto check = [&](int64_t rows, int64_t columns, size_t scores, size_t types) {
    GgufWriter writer;
    writer.AddMetadata("general.architecture", "llama")
        .AddMetadata("llama.embedding_length", int32_t{8})
        .AddMetadata("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "c"})
        .AddMetadata("tokenizer.ggml.scores", std::vector<float>(scores))
        .AddMetadata("tokenizer.ggml.token_type", std::vector<int32_t>(types))
        .AddTensor("token_embd.weight", Encoding::kF32, {rows, columns}, std::span(values).first(rows * columns));
    const std::string bytes = writer.Build();
    const auto file = GgufFile::Parse(AsBytes(bytes), "m.gguf");
    EXPECT_TRUE(file) << file.error().ToString();
    const Status status = CheckGgufVocabulary(*file);
    return status ? std::string() : status.error().ToString();
  };
  EXPECT_EQ(check(3, 8, 3, 3), "");
  EXPECT_EQ(check(2, 8, 3, 3), "m.gguf: tensor token_embd.weight: has 2 rows for a vocabulary of 3 tokens");
  EXPECT_EQ(check(3, 4, 3, 3), "m.gguf: tensor token_embd.weight: has 4 columns, but llama.embedding_length is 8");
  EXPECT_EQ(check(3, 8, 2, 3), "m.gguf: key tokenizer.ggml.scores: has 2 elements for a vocabulary of 3 tokens");
  EXPECT_EQ(check(3, 8, 3, 4), "m.gguf: key tokenizer.ggml.token_type: has 4 elements for a vocabulary of 3 tokens");
}

class SplitTest : public testing::Test {
 protected:
  // Writes part `number` (from 0) of `count`, as the file with its name says.
  void WritePart(int number, int count, int said_number, int said_count, int said_tensors) {
    const std::vector<float> values(4, static_cast<float>(number));
    GgufWriter writer;
    writer.AddRawMetadata("split.no", 2, Raw<uint16_t>(static_cast<uint16_t>(said_number)))
        .AddRawMetadata("split.count", 2, Raw<uint16_t>(static_cast<uint16_t>(said_count)))
        .AddMetadata("split.tensors.count", int32_t{said_tensors})
        .AddTensor(fmt::format("w{}", number), Encoding::kF32, {4}, values);
    ASSERT_TRUE(writer.Write(folder_.File(fmt::format("m-{:05}-of-{:05}.gguf", number + 1, count))));
  }
  std::string Open() {
    const auto parts = OpenGgufParts(folder_.File("m-00001-of-00002.gguf"));
    return parts ? fmt::format("{} parts", parts->size()) : parts.error().ToString();
  }
  TempFolder folder_;
};

TEST_F(SplitTest, JoinsAllParts) {
  WritePart(0, 2, 0, 2, 2);
  WritePart(1, 2, 1, 2, 2);
  EXPECT_EQ(Open(), "2 parts");
  EXPECT_FALSE(OpenGgufParts(folder_.File("m-00002-of-00002.gguf")));  // the second part alone
}

TEST_F(SplitTest, AMissingPartIsNamed) {
  WritePart(0, 2, 0, 2, 2);
  EXPECT_NE(Open().find("m-00002-of-00002.gguf: cannot open"), std::string::npos) << Open();
}

TEST_F(SplitTest, PartsMustAgree) {
  WritePart(0, 2, 0, 2, 2);
  WritePart(1, 2, 1, 3, 2);
  EXPECT_NE(Open().find("split.count: says 3 parts"), std::string::npos) << Open();
  WritePart(1, 2, 0, 2, 2);
  EXPECT_NE(Open().find("split.no: is 0 where 1"), std::string::npos) << Open();
  WritePart(0, 2, 0, 2, 5);
  WritePart(1, 2, 1, 2, 5);
  EXPECT_NE(Open().find("says 5 tensors, but the 2 parts hold 2"), std::string::npos) << Open();
  WritePart(0, 2, 0, 65535, 5);
  EXPECT_NE(Open().find("65535 parts are not possible"), std::string::npos) << Open();
}

TEST_F(SplitTest, TheNameMustFollowThePattern) {
  WritePart(0, 2, 0, 2, 2);
  std::filesystem::rename(folder_.File("m-00001-of-00002.gguf"), folder_.File("other.gguf"));
  const auto parts = OpenGgufParts(folder_.File("other.gguf"));
  ASSERT_FALSE(parts);
  EXPECT_NE(parts.error().ToString().find("does not end in -00001-of-00002.gguf"), std::string::npos);
}

}  // namespace
}  // namespace deepinfer::formats
