// Files made to break a reader: each must give an error that names the file, the field and the reason, at once and
// without taking memory. The test also counts what the reader allocates.
#include <gtest/gtest.h>

#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "formats/test_files.h"

namespace deepinfer::formats {
namespace {

constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ8_0 = 8;
constexpr uint32_t kI8 = 24;
constexpr uint64_t kHuge = uint64_t{1} << 63;

std::string Header(uint64_t tensors, uint64_t pairs) {
  return "GGUF" + Raw<uint32_t>(3) + Raw(tensors) + Raw(pairs);
}

std::string TensorEntry(std::string_view name, std::vector<uint64_t> sizes, uint32_t type, uint64_t offset = 0) {
  std::string entry = RawString(name) + Raw<uint32_t>(static_cast<uint32_t>(sizes.size()));
  for (uint64_t size : sizes) entry += Raw(size);
  return entry + Raw(type) + Raw(offset);
}

// A file with one tensor and 64 bytes of data.
std::string OneTensor(std::vector<uint64_t> sizes, uint32_t type, uint64_t offset = 0) {
  std::string file = Header(1, 0) + TensorEntry("w", std::move(sizes), type, offset);
  file.resize((file.size() + 31) / 32 * 32 + 64, '\0');
  return file;
}

std::string TwoTensors(std::string_view second, uint64_t second_offset) {
  std::string file = Header(2, 0) + TensorEntry("w", {16}, kF32) + TensorEntry(second, {8}, kF32, second_offset);
  file.resize((file.size() + 31) / 32 * 32 + 128, '\0');
  return file;
}

std::string OnePair(std::string_view key, uint32_t type, std::string_view value) {
  return Header(0, 1) + RawString(key) + Raw(type) + std::string(value);
}

std::string Array(uint32_t type, uint64_t count, std::string_view elements) {
  return Raw(type) + Raw(count) + std::string(elements);
}

struct HostileCase {
  const char* name;
  std::string file;
  const char* message;  // part of the error
};

std::vector<HostileCase> HostileCases() {
  return {
      {"empty file", "", "magic: needs 4 bytes"},
      {"other magic", "GGML" + std::string(40, '\0'), "not a GGUF file"},
      {"version 1", "GGUF" + Raw<uint32_t>(1) + std::string(16, '\0'), "version: GGUF version 1"},
      {"version 0", "GGUF" + Raw<uint32_t>(0) + std::string(16, '\0'), "version: GGUF version 0"},
      {"big-endian", "GGUF" + Raw<uint32_t>(3u << 24) + std::string(16, '\0'), "big-endian"},
      {"cut in the counts", Header(1, 1).substr(0, 20), "metadata count: needs 8 bytes"},

      {"product over the file", OneTensor({1152, (uint64_t{1} << 42) + 1}, kF32), "tensor w: its"},
      {"i8 product overflow", OneTensor({kHuge - 1, 2}, kI8), "tensor w: the shape's size overflows"},
      {"f32 size wraps to zero", OneTensor({uint64_t{1} << 32, uint64_t{1} << 32}, kF32), "tensor w: the shape's size"},
      {"f32 elements fit, bytes do not", OneTensor({uint64_t{1} << 61, 2}, kF32), "tensor w: the shape's size"},
      {"i8 bytes fit, decoded ones do not", OneTensor({uint64_t{1} << 61, 2}, kI8), "tensor w: the shape's size"},
      {"blocks overflow", OneTensor({uint64_t{1} << 62, 32}, kQ8_0), "tensor w: the shape's size"},
      {"zero dimension", OneTensor({0}, kF32), "tensor w: dimension 0 is zero"},
      {"zero outer dimension", OneTensor({16, 0}, kF32), "tensor w: dimension 1 is zero"},
      {"dimension 2^63", OneTensor({kHuge}, kF32), "tensor w: dimension 0 of 9223372036854775808 is too large"},
      {"no dimensions", OneTensor({}, kF32), "tensor w: has 0 dimensions"},
      {"five dimensions", OneTensor({1, 1, 1, 1, 1}, kF32), "tensor w: has 5 dimensions"},
      {"2^32-1 dimensions", Header(1, 0) + RawString("w") + Raw(0xffffffffu) + std::string(40, '\1'),
       "tensor w: has 4294967295 dimensions"},
      {"part of a block", OneTensor({33}, kQ8_0), "tensor w: a row of 33 elements is not a whole number"},
      {"unknown type", OneTensor({16}, 4096), "tensor w: unknown tensor type 4096"},
      {"removed type", OneTensor({32}, 4), "tensor w: unknown tensor type 4"},
      {"offset past the end", OneTensor({16}, kF32, 1 << 20), "tensor w: its 64 bytes at offset 1048576 leave"},
      {"offset wraps", OneTensor({16}, kF32, 0xffffffffffffffe0u), "tensor w: its 64 bytes at offset"},
      {"data cut", OneTensor({32}, kF32), "tensor w: its 128 bytes at offset 0 leave"},
      {"unaligned offset", OneTensor({8}, kF32, 4), "tensor w: its offset 4 is not a multiple of the alignment 32"},
      {"overlap", TwoTensors("v", 32), "tensor v: its data at offset 32 overlaps that of w"},
      {"same region", TwoTensors("v", 0), "overlaps that of"},
      {"duplicate tensor", TwoTensors("w", 64), "tensor w: the name occurs twice"},
      {"empty tensor name", TwoTensors("", 64), "a tensor has an empty name"},
      {"long tensor name", TwoTensors(std::string(300, 'n'), 64), "tensor name: a string of 300 bytes"},
      {"entry cut", Header(1, 0) + TensorEntry("long_name", {16}, kF32).substr(0, 38),
       "tensor long_name: needs 8 bytes"},

      {"tensor count 2^63", Header(kHuge, 0) + std::string(64, '\0'), "tensor count: 9223372036854775808 tensors"},
      {"metadata count 2^63", Header(0, kHuge) + std::string(64, '\0'), "metadata count: 9223372036854775808 pairs"},
      {"key length 2^63", Header(0, 1) + Raw(kHuge) + std::string(32, 'k'), "metadata key: needs 9223372036854775808"},
      {"string length 2^63", OnePair("k", 8, Raw(kHuge) + "text"), "key k: needs 9223372036854775808 bytes"},
      {"string length 2^64-1", OnePair("k", 8, Raw(~uint64_t{0}) + "text"), "key k: needs 18446744073709551615"},
      {"array length 2^63", OnePair("k", 9, Array(4, kHuge, "12345678")), "key k: an array of 9223372036854775808"},
      {"array length wraps", OnePair("k", 9, Array(10, uint64_t{1} << 61, "12345678")), "key k: an array of"},
      {"string array length 2^63", OnePair("k", 9, Array(8, kHuge, "12345678")), "key k: an array of"},
      {"array cut inside a string", OnePair("k", 9, Array(8, 2, Raw<uint64_t>(1) + "x" + Raw<uint64_t>(9))),
       "key k: needs 9 bytes"},
      {"nested arrays", OnePair("k", 9, Array(9, 1, Array(4, 1, "1234"))), "key k: arrays of arrays"},
      {"endless nested arrays", OnePair("k", 9, Array(9, uint64_t{1} << 60, "")), "key k: arrays of arrays"},
      {"unknown value type", OnePair("k", 13, "12345678"), "key k: unknown value type 13"},
      {"unknown array type", OnePair("k", 9, Array(99, 1, "12345678")), "key k: unknown value type 99"},
      {"boolean 2", OnePair("k", 7, "\2"), "key k: a boolean is 2"},
      {"u64 array element 2^63", OnePair("k", 9, Array(10, 1, Raw(kHuge))), "key k: an array element of"},
      {"empty key", OnePair("", 4, "1234"), "a metadata key is empty"},
      {"key with control bytes", OnePair("k\n\x1b", 4, "1234"), "key k\\x0a\\x1b: the key holds"},
      {"duplicate key",
       Header(0, 2) + RawString("k") + Raw<uint32_t>(4) + "1234" + RawString("k") + Raw<uint32_t>(4) + "1234",
       "key k: the key occurs twice"},
      {"alignment 0", OnePair("general.alignment", 4, Raw<uint32_t>(0)), "alignment: the alignment must be a power"},
      {"alignment 3", OnePair("general.alignment", 4, Raw<uint32_t>(3)), "alignment: the alignment must be a power"},
      {"alignment 24", OnePair("general.alignment", 4, Raw<uint32_t>(24)), "alignment: the alignment must be a power"},
      {"alignment 2^31", OnePair("general.alignment", 4, Raw(0x80000000u)), "alignment: the alignment must be a power"},
      {"alignment of another type", OnePair("general.alignment", 5, Raw<int32_t>(32)), "must be a 32-bit unsigned"},
      {"alignment as a string", OnePair("general.alignment", 8, RawString("32")), "must be a 32-bit unsigned"},
  };
}

TEST(GgufHostileTest, EveryFileGivesAnErrorThatNamesItAndTakesNoMemory) {
  for (const HostileCase& hostile : HostileCases()) {
    SCOPED_TRACE(hostile.name);
    // An exact copy on the heap, so that a sanitizer sees a read of one byte too many.
    const std::vector<char> bytes(hostile.file.begin(), hostile.file.end());
    const size_t before = AllocatedBytes();
    const auto file = GgufFile::Parse(std::as_bytes(std::span(bytes)), "bad.gguf");
    EXPECT_LT(AllocatedBytes() - before, size_t{100000});
    ASSERT_FALSE(file);
    EXPECT_TRUE(file.error().ToString().starts_with("bad.gguf: ") && !file.error().message.empty())
        << file.error().ToString();
    EXPECT_NE(file.error().ToString().find(hostile.message), std::string::npos) << file.error().ToString();
  }
}

TEST(GgufHostileTest, TheUndamagedFormsOfTheseFilesAreAccepted) {
  for (const std::string& good :
       {OneTensor({16}, kF32), OneTensor({1, 1, 1, 1}, kF32), OneTensor({32}, kQ8_0, 0), TwoTensors("v", 64),
        OnePair("k", 9, Array(4, 2, "12345678")), Header(0, 0), OnePair("general.alignment", 4, Raw<uint32_t>(8))}) {
    const auto file = GgufFile::Parse(AsBytes(good), "good.gguf");
    EXPECT_TRUE(file) << file.error().ToString();
  }
}

TEST(GgufHostileTest, EveryTruncationOfAFileIsAnError) {
  const std::vector<float> values(32, 1.0f);
  GgufWriter writer;
  writer.AddMetadata("general.architecture", "llama")
      .AddMetadata("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"})
      .AddMetadata("tokenizer.ggml.scores", std::vector<float>{1, 2})
      .AddTensor("w", Encoding::kQ4_0, {1, 32}, values)
      .AddTensor("v", Encoding::kF32, {32}, values);
  const std::string bytes = writer.Build();
  ASSERT_TRUE(GgufFile::Parse(AsBytes(bytes), "m.gguf"));
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<char> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(GgufFile::Parse(std::as_bytes(std::span(cut)), "m.gguf")) << size;
  }
}

}  // namespace
}  // namespace deepinfer::formats
