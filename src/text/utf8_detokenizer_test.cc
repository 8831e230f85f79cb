#include "text/utf8_detokenizer.h"

#include <gtest/gtest.h>

#include <random>

namespace deepinfer::text {
namespace {

constexpr const char* kBad = "\xEF\xBF\xBD";

std::string Repeat(int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += kBad;
  return out;
}

TEST(Utf8Detokenizer, HoldsUntilTheCharacterIsWhole) {
  Utf8Detokenizer detokenizer;
  EXPECT_EQ(detokenizer.Push("\xE8\xB5"), "");
  EXPECT_EQ(detokenizer.held(), 2u);
  EXPECT_EQ(detokenizer.Push("\x8B"), "\xE8\xB5\x8B");
  EXPECT_EQ(detokenizer.Push("a\xF0\x9F"), "a");
  EXPECT_EQ(detokenizer.Push("\x98\x8A"), "\xF0\x9F\x98\x8A");
  EXPECT_EQ(detokenizer.Flush(), "");
}

TEST(Utf8Detokenizer, FlushesAnUnfinishedTailOnce) {
  Utf8Detokenizer detokenizer;
  EXPECT_EQ(detokenizer.Push("ok\xF0\x9F"), "ok");
  EXPECT_EQ(detokenizer.Flush(), kBad);
  EXPECT_EQ(detokenizer.Flush(), "");
  EXPECT_EQ(detokenizer.Push("x"), "x");
}

TEST(Utf8Detokenizer, OneReplacementPerMaximalBadPart) {
  const std::pair<std::string, std::string> cases[] = {
      {"\x80", Repeat(1)},
      {"a\x80z", "a" + Repeat(1) + "z"},
      {"\xC0\x80", Repeat(2)},          // overlong: neither byte can start anything
      {"\xED\xA0\x80", Repeat(3)},      // surrogate: ED allows 80..9F only
      {"\xF5\x80\x80\x80", Repeat(4)},  // past the last lead byte
      {"\xF4\x90\x80\x80", Repeat(4)},  // past U+10FFFF
      {"\xE0\x80\x80", Repeat(3)},      // overlong
      {"\xF0\x9F\x98"
       "A",
       Repeat(1) + "A"},  // a cut character is one bad part
      {"\xE8\xB5\xE8\xB5\x8B", Repeat(1) + "\xE8\xB5\x8B"},
      {"\xFF\xFE", Repeat(2)},
      {"\xEF\xBF\xBD", kBad},
      {std::string("\0", 1), std::string("\0", 1)},
  };
  for (const auto& [bytes, expected] : cases) {
    EXPECT_EQ(ReplaceInvalidUtf8(bytes), expected);
    Utf8Detokenizer detokenizer;
    std::string joined;
    for (char c : bytes) joined += detokenizer.Push(std::string_view(&c, 1));
    EXPECT_EQ(joined + detokenizer.Flush(), expected);
  }
}

TEST(Utf8Detokenizer, CutsDoNotMatter) {
  constexpr char kBytes[] = "a\x80\xC3\xA9\xE8\xB5\x8B\xF0\x9F\x98\x8A\xED\xA0\xFF\xC0";
  std::mt19937 random(20240611);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (int i = 0; i < 20; ++i) bytes += kBytes[random() % (sizeof(kBytes) - 1)];
    Utf8Detokenizer detokenizer;
    std::string joined;
    for (size_t at = 0; at < bytes.size();) {
      const size_t length = 1 + random() % 5;
      joined += detokenizer.Push(std::string_view(bytes).substr(at, length));
      at += length;
    }
    joined += detokenizer.Flush();
    ASSERT_EQ(joined, ReplaceInvalidUtf8(bytes));
    ASSERT_EQ(ReplaceInvalidUtf8(joined), joined);  // and it is valid
  }
}

}  // namespace
}  // namespace deepinfer::text
