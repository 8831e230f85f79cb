#include "runner/quantise.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/mapped_file.h"
#include "formats/checkpoint.h"
#include "formats/test_files.h"
#include "runner/quantised_type.h"

namespace deepinfer::runner {
namespace {

using formats::TempFolder;

const std::string kOracle = std::string(DI_SOURCE_DIR) + "/tests/data/oracle/";

std::string Bytes(const std::string& path) {
  auto file = MappedFile::Open(path);
  EXPECT_TRUE(file) << path;
  return std::string(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
}

std::vector<float> Values(const formats::GgufTensor& tensor) {
  int64_t elements = 1;
  for (const int64_t size : tensor.shape) elements *= size;
  std::vector<float> values(static_cast<size_t>(elements));
  DecodeRow(tensor.encoding, tensor.data.data(), values.data(), elements);
  return values;
}

TEST(QuantisedTypeTest, HeadsAndShortRowsGetAnother) {
  EXPECT_EQ(QuantisedType(Encoding::kQ4_K, {8, 512}, false), Encoding::kQ4_K);
  EXPECT_EQ(QuantisedType(Encoding::kQ4_K, {8, 512}, true), Encoding::kQ6_K);
  EXPECT_EQ(QuantisedType(Encoding::kQ8_0, {8, 512}, true), Encoding::kQ8_0);
  EXPECT_EQ(QuantisedType(Encoding::kQ4_K, {8, 576}, false), Encoding::kQ5_0);
  EXPECT_EQ(QuantisedType(Encoding::kQ4_K, {8, 576}, true), Encoding::kQ8_0);
  EXPECT_EQ(QuantisedType(Encoding::kQ2_K, {8, 96}, false), Encoding::kIQ4_NL);
  EXPECT_EQ(QuantisedType(Encoding::kQ4_0, {8, 40}, false), Encoding::kF32);
  EXPECT_EQ(QuantisedType(Encoding::kQ4_0, {512}, false), Encoding::kF32);
}

TEST(QuantiseTest, AFolderBecomesAGgufFileAndThatAnotherOne) {
  const TempFolder folder;
  const std::string plain = folder.File("f32.gguf"), small = folder.File("q4_0.gguf");
  auto first = QuantiseModel(kOracle + "llama_f32", plain, {.type = Encoding::kF32});
  ASSERT_TRUE(first) << first.error().ToString();
  int64_t read = 0;
  QuantiseOptions options = {.type = Encoding::kQ4_0, .threads = 3};
  options.progress = [&](int64_t bytes) { read += bytes; };
  auto second = QuantiseModel(plain, small, options);
  ASSERT_TRUE(second) << second.error().ToString();

  const auto from = formats::GgufFile::Open(plain), to = formats::GgufFile::Open(small);
  ASSERT_TRUE(from && to);
  int64_t bytes = 0;
  for (const formats::GgufTensor& tensor : from->tensors()) bytes += static_cast<int64_t>(tensor.data.size());
  EXPECT_EQ(read, bytes);
  ASSERT_EQ(to->tensors().size(), from->tensors().size());
  for (const formats::GgufTensor& tensor : to->tensors()) {
    const formats::GgufTensor& source = *from->FindTensor(tensor.name);
    ASSERT_EQ(tensor.shape, source.shape);
    // 64 and 128 columns: the head's 6 bits come in blocks of 256 only.
    const Encoding wanted = tensor.shape.size() < 2          ? Encoding::kF32
                            : tensor.name == "output.weight" ? Encoding::kQ8_0
                                                             : Encoding::kQ4_0;
    EXPECT_EQ(tensor.encoding, wanted) << tensor.name;
    const std::vector<float> values = Values(source);
    std::vector<std::byte> encoded(tensor.data.size());
    EncodeRow(wanted, values.data(), encoded.data(), static_cast<int64_t>(values.size()));
    EXPECT_TRUE(std::equal(encoded.begin(), encoded.end(), tensor.data.begin())) << tensor.name;
  }
  for (const auto& [key, value] : from->metadata()) {
    if (key == "general.file_type") continue;
    EXPECT_EQ(to->metadata().at(key), value) << key;
  }
  EXPECT_EQ(*to->RequiredInt("general.file_type"), 2);

  // Any number of threads, the same bytes; a file that is there is replaced.
  const std::string before = Bytes(small);
  options.threads = 1;
  ASSERT_TRUE(QuantiseModel(plain, small, options));
  EXPECT_EQ(Bytes(small), before);
}

TEST(QuantiseTest, WhatCannotBeWrittenLeavesNothing) {
  const TempFolder folder;
  const std::string out = folder.File("m.gguf");
  EXPECT_EQ(QuantiseModel(kOracle + "llama_f32", out, {.type = Encoding::kInt8}).error().message,
            "GGUF files have no int8");
  EXPECT_EQ(QuantiseModel(folder.File("none.gguf"), out, {}).error().code, ErrorCode::kNotFound);
  // A setting that GGUF has no word for.
  const std::string odd = folder.File("odd");
  std::filesystem::copy(kOracle + "gemma3_f32", odd);
  std::string config = Bytes(odd + "/config.json");
  const std::string scalar = "\"query_pre_attn_scalar\": ";
  config.insert(config.find(scalar) + scalar.size(), "1");
  std::ofstream(odd + "/config.json") << config;
  QuantiseOptions options;
  options.add_tokenizer = [](int64_t, const std::vector<int32_t>&, formats::GgufWriter*) -> Result<std::string> {
    return MakeError(ErrorCode::kUnsupported, "tokenizer.json", "no GGUF name");
  };
  EXPECT_EQ(QuantiseModel(kOracle + "llama_f32", out, options).error().message, "no GGUF name");
  EXPECT_FALSE(std::filesystem::exists(out));
  ASSERT_TRUE(QuantiseModel(kOracle + "llama_f32", out, {}));
  const std::string before = Bytes(out);
  EXPECT_EQ(QuantiseModel(out, out, {}).error().message, "is the input itself");
  EXPECT_NE(QuantiseModel(odd, out, {}).error().message.find("the scale of attention"), std::string::npos);
  EXPECT_EQ(Bytes(out), before);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_EQ(entry.path().string().find(".tmp."), std::string::npos);
  }
}

}  // namespace
}  // namespace deepinfer::runner
