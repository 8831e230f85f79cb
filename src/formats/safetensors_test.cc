#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include "formats/test_files.h"

namespace deepinfer::formats {
namespace {

std::string FileOf(std::string_view header, size_t data_bytes) {
  return RawString(header) + std::string(data_bytes, 'd');
}

TEST(SafetensorsTest, WhatIsWrittenIsRead) {
  TempFolder folder;
  const float floats[6] = {1, 2, 3, 4, 5, 6};
  const int64_t ids[2] = {-1, 7};
  const uint8_t flags[3] = {1, 0, 1};
  const SafetensorsOutput outputs[] = {
      {"logits", DType::kF32, {2, 3}, std::as_bytes(std::span(floats))},
      {"flags", DType::kI1, {3}, std::as_bytes(std::span(flags))},
      {"ids", DType::kI64, {2}, std::as_bytes(std::span(ids))},
      {"nothing", DType::kF16, {0, 4}, {}},
  };
  const std::string path = folder.File("out.safetensors");
  ASSERT_TRUE(WriteSafetensors(path, outputs));
  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file) << file.error().ToString();
  ASSERT_EQ(file->tensors().size(), 4u);
  for (const SafetensorsOutput& output : outputs) {
    const SafetensorsTensor* tensor = file->FindTensor(output.name);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->dtype, output.dtype);
    EXPECT_EQ(tensor->shape, output.shape);
    EXPECT_TRUE(std::equal(tensor->data.begin(), tensor->data.end(), output.data.begin(), output.data.end()));
  }
  EXPECT_EQ(file->FindTensor("logits")->encoding, Encoding::kF32);
  EXPECT_EQ(file->FindTensor("ids")->encoding, std::nullopt);
  EXPECT_EQ(file->header_bytes().size() % 8, 0u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), std::filesystem::directory_iterator()),
            1);
}

TEST(SafetensorsTest, TheWriterRefusesWhatDoesNotFit) {
  TempFolder folder;
  const uint8_t byte[1] = {0};
  const auto data = std::as_bytes(std::span(byte));
  const std::string path = folder.File("out.safetensors");
  EXPECT_FALSE(WriteSafetensors(path, std::vector<SafetensorsOutput>{{"a", DType::kF32, {1}, data}}));
  EXPECT_FALSE(WriteSafetensors(path, std::vector<SafetensorsOutput>{{"", DType::kU8, {1}, data}}));
  EXPECT_FALSE(WriteSafetensors(
      path, std::vector<SafetensorsOutput>{{"a", DType::kU8, {1}, data}, {"a", DType::kU8, {1}, data}}));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(
      WriteSafetensors(folder.File("no/such/out"), std::vector<SafetensorsOutput>{{"a", DType::kU8, {1}, data}}));
}

TEST(SafetensorsTest, ReadsMetadataScalarsAndForeignTypes) {
  const std::string bytes = FileOf(
      R"({"__metadata__":{"format":"pt"},"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
      R"("d":{"dtype":"F64","shape":[1],"data_offsets":[4,12]},"f4":{"dtype":"F4","shape":[2],"data_offsets":[12,13]}}  )",
      13);
  const auto file = SafetensorsFile::Parse(AsBytes(bytes), "m.safetensors");
  ASSERT_TRUE(file) << file.error().ToString();
  EXPECT_EQ(file->metadata().at("format"), "pt");
  EXPECT_TRUE(file->FindTensor("s")->shape.empty());
  EXPECT_EQ(file->FindTensor("d")->dtype, std::nullopt);
  EXPECT_EQ(file->FindTensor("d")->dtype_name, "F64");
  EXPECT_EQ(file->FindTensor("__metadata__"), nullptr);
}

TEST(SafetensorsTest, HostileFilesGiveErrorsThatNameTheField) {
  const auto one = [](const char* dtype, const char* shape, const char* offsets, size_t data) {
    return FileOf(fmt::format(R"({{"w":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", dtype, shape, offsets), data);
  };
  const auto two = [](const char* first, const char* second, size_t data) {
    return FileOf(fmt::format(R"({{"a":{{"dtype":"U8","shape":[4],"data_offsets":{}}},)"
                              R"("b":{{"dtype":"U8","shape":[4],"data_offsets":{}}}}})",
                              first, second),
                  data);
  };
  const std::tuple<const char*, std::string, const char*> cases[] = {
      {"empty", "", "header length: needs 8 bytes"},
      {"cut length", "1234", "header length: needs 8 bytes"},
      {"length 2^63", Raw(uint64_t{1} << 63) + "{}", "header: needs 9223372036854775808 bytes"},
      {"length past the end", Raw<uint64_t>(3) + "{}", "header: needs 3 bytes"},
      {"empty header", FileOf("", 0), "header: does not start with '{'"},
      {"array header", FileOf("[]", 0), "header: does not start with '{'"},
      {"broken header", FileOf("{\"w\":", 0), "header: not valid JSON"},
      {"nested header", FileOf("{\"w\":" + std::string(100000, '['), 0), "header: is nested over 8 levels"},
      {"text after header", FileOf("{} {}", 0), "header: not valid JSON"},
      {"duplicate tensor", FileOf(R"({"a":{},"a":{}})", 0), "header: the key \"a\" occurs twice"},
      {"entry is a number", FileOf(R"({"w":5})", 0), "tensor w: its entry is not an object"},
      {"unknown field", FileOf(R"({"w":{"dtype":"U8","shape":[],"data_offsets":[0,1],"strides":[1]}})", 1),
       "tensor w: unknown field \"strides\""},
      {"no dtype", FileOf(R"({"w":{"shape":[],"data_offsets":[0,1]}})", 1), "tensor w: dtype is missing"},
      {"unknown dtype", one("Q4", "[1]", "[0,1]", 1), "tensor w: unknown dtype \"Q4\""},
      {"shape is a number", one("U8", "4", "[0,4]", 4), "tensor w: shape is missing or no array"},
      {"negative size", one("U8", "[-4]", "[0,4]", 4), "tensor w: shape holds something else"},
      {"fractional size", one("U8", "[4.0]", "[0,4]", 4), "tensor w: shape holds something else"},
      {"size 2^63", one("U8", "[9223372036854775808]", "[0,4]", 4), "tensor w: shape holds something else"},
      {"17 dimensions", one("U8", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]", 1),
       "tensor w: shape has 17 elements"},
      {"product wraps to zero", one("F32", "[4294967296,4294967296]", "[0,0]", 0),
       "tensor w: the shape's size overflows"},
      {"bytes overflow", one("F32", "[4611686018427387904]", "[0,0]", 0), "tensor w: the shape's size overflows"},
      {"half a byte", one("F4", "[3]", "[0,1]", 1), "tensor w: the shape is not a whole number of bytes"},
      {"one offset", one("U8", "[4]", "[4]", 4), "tensor w: data_offsets must be [begin, end]"},
      {"offsets reversed", one("U8", "[4]", "[4,0]", 4), "tensor w: data_offsets must be [begin, end]"},
      {"three offsets", one("U8", "[4]", "[0,4,8]", 4), "tensor w: data_offsets has 3 elements"},
      {"too few bytes", one("F32", "[4]", "[0,8]", 8),
       "tensor w: shape and dtype take 16 bytes, but data_offsets give 8"},
      {"past the end", one("U8", "[8]", "[0,8]", 4), "tensor w: its data ends at 8, past the file's 4 bytes"},
      {"hole at the start", one("U8", "[4]", "[4,8]", 8), "tensor w: there is a hole of 4 bytes"},
      {"hole between", two("[0,4]", "[5,9]", 9), "tensor b: there is a hole of 1 bytes"},
      {"overlap", two("[0,4]", "[2,6]", 6), "tensor b: its data at 2 overlaps"},
      {"same region", two("[0,4]", "[0,4]", 4), "its data at 0 overlaps"},
      {"rest at the end", one("U8", "[4]", "[0,4]", 6), "m.safetensors: 2 bytes after the last tensor"},
      {"empty name", FileOf(R"({"":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})", 1), "empty name"},
      {"metadata is a list", FileOf(R"({"__metadata__":[]})", 0), "__metadata__: is not an object"},
      {"metadata value is a number", FileOf(R"({"__metadata__":{"a":1}})", 0), "__metadata__: a is not a string"},
  };
  for (const auto& [name, bytes, message] : cases) {
    SCOPED_TRACE(name);
    const std::vector<char> exact(bytes.begin(), bytes.end());
    const auto file = SafetensorsFile::Parse(std::as_bytes(std::span(exact)), "m.safetensors");
    ASSERT_FALSE(file);
    EXPECT_TRUE(file.error().ToString().starts_with("m.safetensors: ")) << file.error().ToString();
    EXPECT_NE(file.error().ToString().find(message), std::string::npos) << file.error().ToString();
  }
}

class FolderTest : public testing::Test {
 protected:
  void WriteShard(const std::string& name, const std::vector<std::string>& tensors) {
    static constexpr uint8_t kData[4] = {1, 2, 3, 4};
    std::vector<SafetensorsOutput> outputs;
    for (const std::string& tensor : tensors) {
      outputs.push_back({tensor, DType::kF32, {1}, std::as_bytes(std::span(kData))});
    }
    ASSERT_TRUE(WriteSafetensors(folder_.File(name), outputs));
  }
  void WriteIndex(std::string_view weight_map) {
    folder_.Write("model.safetensors.index.json", fmt::format(R"({{"metadata":{{}},"weight_map":{}}})", weight_map));
  }
  std::string Open() {
    const auto opened = SafetensorsFolder::Open(folder_.path());
    return opened ? fmt::format("{} files", opened->files().size()) : opened.error().ToString();
  }
  void ExpectError(std::string_view part) { EXPECT_NE(Open().find(part), std::string::npos) << Open(); }
  TempFolder folder_;
};

TEST_F(FolderTest, OneFileOrShards) {
  ExpectError("has neither model.safetensors nor");
  WriteShard("s1.safetensors", {"a", "b"});
  WriteShard("s2.safetensors", {"c"});
  WriteIndex(R"({"a":"s1.safetensors","b":"s1.safetensors","c":"s2.safetensors"})");
  EXPECT_EQ(Open(), "2 files");
  WriteShard("model.safetensors", {"a"});
  EXPECT_EQ(Open(), "1 files");
}

TEST_F(FolderTest, ShardsMustBeThereAndHoldWhatTheIndexSays) {
  WriteShard("s1.safetensors", {"a", "b"});
  WriteIndex(R"({"a":"s1.safetensors","b":"s1.safetensors","c":"s2.safetensors"})");
  ExpectError("s2.safetensors: cannot open");
  WriteShard("s2.safetensors", {"d"});
  ExpectError("s2.safetensors: tensor d: the index does not list it");
  WriteShard("s2.safetensors", {"b", "c"});
  ExpectError("s2.safetensors: tensor b: the index puts it into s1.safetensors");
  WriteShard("s2.safetensors", {"c"});
  WriteShard("s1.safetensors", {"a"});
  ExpectError("s1.safetensors: tensor b: the index puts it here, but the file does not have it");
}

TEST_F(FolderTest, ShardNamesCannotLeaveTheFolder) {
  for (const char* name : {"../s.safetensors", "/etc/s.safetensors", "x/s.safetensors", "..", "", ".safetensors",
                           "s.bin", "a\\\\b.safetensors", "s\\u0000.safetensors"}) {
    WriteIndex(fmt::format(R"({{"a":"{}"}})", name));
    ExpectError("is not a plain name");
  }
  for (const char* map : {"{}", "[]", "5", "null"}) {
    WriteIndex(map);
    ExpectError("weight_map: is missing, empty or no object");
  }
  WriteIndex(R"({"a":5})");
  ExpectError("weight_map: a names no file");
  folder_.Write("model.safetensors.index.json", "[]");
  ExpectError("weight_map: is missing");
  folder_.Write("model.safetensors.index.json", "");
  ExpectError("not valid JSON");
}

}  // namespace
}  // namespace deepinfer::formats
