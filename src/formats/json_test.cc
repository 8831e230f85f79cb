#include "formats/json.h"

#include <gtest/gtest.h>

namespace deepinfer::formats {
namespace {

std::string ErrorOf(std::string_view text, const JsonLimits& limits = {}) {
  const auto parsed = ParseJson(text, "f.json", limits);
  return parsed ? "" : parsed.error().ToString();
}

TEST(JsonTest, BuildsTheSameDocumentAsTheLibrary) {
  const std::string text =
      R"({"a": [1, -2, 2.5, null, true, "x\u00e9", {"b": {}, "c": []}], "d": 18446744073709551615})";
  const auto parsed = ParseJson(text, "f.json");
  ASSERT_TRUE(parsed) << parsed.error().ToString();
  EXPECT_EQ(*parsed, nlohmann::json::parse(text));
  EXPECT_EQ(*ParseJson("7", "f.json"), 7);
}

TEST(JsonTest, RefusesWhatIsNotJson) {
  for (const char* text :
       {"", " ", "{", "{\"a\":}", "[1,]", "nul", "{} x", "\"\xff\"", "1e999", "{\"a\" 1}", "NaN", "[1"}) {
    EXPECT_NE(ErrorOf(text).find("f.json: not valid JSON at byte"), std::string::npos)
        << text << " -> " << ErrorOf(text);
  }
  EXPECT_FALSE(ErrorOf(std::string_view("\0", 1)).empty());
}

TEST(JsonTest, RefusesDuplicateKeysAtAnyDepth) {
  EXPECT_EQ(ErrorOf(R"({"a": 1, "a": 1})"), "f.json: the key \"a\" occurs twice");
  EXPECT_EQ(ErrorOf(R"([{"x": {"b": {}, "c": 2, "b": 3}}])"), "f.json: the key \"b\" occurs twice");
  EXPECT_EQ(ErrorOf(R"([{"a": 1}, {"a": 1}])"), "");
}

TEST(JsonTest, LimitsDepthValuesAndBytes) {
  EXPECT_EQ(ErrorOf("[[[]]]", {.max_depth = 3}), "");
  EXPECT_EQ(ErrorOf("[[[[]]]]", {.max_depth = 3}), "f.json: is nested over 3 levels deep");
  EXPECT_NE(ErrorOf(std::string(1000000, '[')), "");
  EXPECT_NE(ErrorOf(std::string(1000000, '{')), "");
  EXPECT_EQ(ErrorOf("[1,2,3]", {.max_values = 4}), "");
  EXPECT_EQ(ErrorOf("[1,2,3,4]", {.max_values = 4}), "f.json: has over 4 values");
  EXPECT_EQ(ErrorOf("[1, 2]", {.max_bytes = 5}), "f.json: its 6 bytes are over the limit of 5");
}

}  // namespace
}  // namespace deepinfer::formats
