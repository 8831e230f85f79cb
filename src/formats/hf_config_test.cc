#include "formats/hf_config.h"

#include <gtest/gtest.h>

#include "formats/test_files.h"

namespace deepinfer::formats {
namespace {

TEST(HfConfigTest, TypedGettersNameFileAndField) {
  const auto config = HfConfig::Parse(
      R"({"n": 5, "f": 0.5, "b": true, "s": "x", "ints": [1, 2], "mixed": [1, 0.5], "strings": ["a"], "none": null,
          "big": 18446744073709551615, "nested": {"deeper": {"k": "v"}}})",
      "", "dir");
  ASSERT_TRUE(config) << config.error().ToString();
  const ConfigNode root = config->root();
  EXPECT_EQ(*root.RequiredInt("n"), 5);
  EXPECT_EQ(*root.RequiredFloat("n"), 5.0);
  EXPECT_EQ(*root.RequiredFloat("f"), 0.5);
  EXPECT_EQ(*root.RequiredBool("b"), true);
  EXPECT_EQ(*root.RequiredString("s"), "x");
  EXPECT_EQ(*root.Ints("ints"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(*root.Floats("mixed"), (std::vector<double>{1, 0.5}));
  EXPECT_EQ(*root.Strings("strings"), (std::vector<std::string>{"a"}));
  EXPECT_TRUE(root.Ints("missing")->empty());
  EXPECT_EQ(*root.OptionalInt("none", 9), 9);
  EXPECT_EQ(*root.OptionalFloat("none", 1.5), 1.5);
  EXPECT_EQ(*root.OptionalBool("none", true), true);
  EXPECT_EQ(*root.OptionalString("none", "d"), "d");
  EXPECT_FALSE(root.Has("none"));

  EXPECT_EQ(root.RequiredInt("none").error().ToString(), "dir/config.json: none: the field is missing");
  EXPECT_EQ(root.RequiredInt("f").error().ToString(),
            "dir/config.json: f: is 0.5 (number) where an integer is expected");
  EXPECT_FALSE(root.RequiredInt("big"));
  EXPECT_FALSE(root.RequiredInt("b"));
  EXPECT_FALSE(root.OptionalBool("n", false));
  EXPECT_FALSE(root.OptionalFloat("s", 0));
  EXPECT_FALSE(root.OptionalString("n", ""));
  EXPECT_FALSE(root.Ints("mixed"));
  EXPECT_FALSE(root.Ints("n"));
  EXPECT_FALSE(root.Child("n"));
  const auto nested = root.Child("nested");
  ASSERT_TRUE(nested && nested->has_value());
  const auto deeper = (*nested)->Child("deeper");
  EXPECT_EQ((*deeper)->RequiredInt("k").error().ToString(),
            "dir/config.json: nested: deeper: k: is \"v\" (string) where an integer is expected");
  EXPECT_FALSE(root.Child("missing")->has_value());
}

TEST(HfConfigTest, FindsTheLanguageModelsPart) {
  const auto config = HfConfig::Parse(
      R"({"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "eos_token_id": [106, 1],
          "text_config": {"model_type": "gemma3_text", "hidden_size": 640, "tie_word_embeddings": true}})",
      "", "dir");
  ASSERT_TRUE(config) << config.error().ToString();
  EXPECT_EQ(config->architecture(), "Gemma3ForConditionalGeneration");
  EXPECT_EQ(config->model_type(), "gemma3");
  EXPECT_EQ(*config->text().RequiredInt("hidden_size"), 640);
  EXPECT_EQ(config->text().where(), "dir/config.json: text_config");
  EXPECT_EQ(config->eos_ids(), (std::vector<int64_t>{1, 106}));
  EXPECT_EQ(config->tie_word_embeddings(), true);
  EXPECT_FALSE(HfConfig::Parse(R"({"text_config": 5})", "", "dir"));
}

TEST(HfConfigTest, TieFlagAndEosIdsComeFromTheRightPlace) {
  const auto parse = [](const char* config, const char* generation) {
    auto parsed = HfConfig::Parse(config, generation, "dir");
    EXPECT_TRUE(parsed) << parsed.error().ToString();
    return std::move(*parsed);
  };
  EXPECT_EQ(parse(R"({})", "").tie_word_embeddings(), std::nullopt);
  EXPECT_EQ(parse(R"({"tie_word_embeddings": false})", "").tie_word_embeddings(), false);
  EXPECT_EQ(parse(R"({"tie_word_embeddings": false, "text_config": {"tie_word_embeddings": true}})", "")
                .tie_word_embeddings(),
            true);
  EXPECT_EQ(parse(R"({"tie_word_embeddings": true, "text_config": {}})", "").tie_word_embeddings(), true);
  EXPECT_EQ(parse(R"({"eos_token_id": 2})", R"({"eos_token_id": [7, 3, 7]})").eos_ids(), (std::vector<int64_t>{3, 7}));
  EXPECT_EQ(parse(R"({"eos_token_id": 2})", R"({})").eos_ids(), (std::vector<int64_t>{2}));
  EXPECT_TRUE(parse(R"({"eos_token_id": null})", "").eos_ids().empty());
}

TEST(HfConfigTest, RefusesBrokenFiles) {
  for (const char* text : {"", "[]", "5", "{", R"({"architectures": "x"})", R"({"architectures": [1]})",
                           R"({"eos_token_id": "x"})", R"({"eos_token_id": [null]})", R"({"tie_word_embeddings": 1})",
                           R"({"model_type": {}})", R"({"a": 1, "a": 2})"}) {
    EXPECT_FALSE(HfConfig::Parse(text, "", "dir")) << text;
  }
  EXPECT_FALSE(HfConfig::Parse("{}", "[]", "dir"));
  EXPECT_FALSE(HfConfig::Parse("{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}", "", "dir"));
}

TEST(HfConfigTest, OpensAFolder) {
  TempFolder folder;
  EXPECT_EQ(HfConfig::Open(folder.path()).error().code, ErrorCode::kNotFound);
  folder.Write("config.json", R"({"model_type": "llama", "eos_token_id": 1})");
  EXPECT_EQ(HfConfig::Open(folder.path())->eos_ids(), (std::vector<int64_t>{1}));
  folder.Write("generation_config.json", R"({"eos_token_id": 4})");
  EXPECT_EQ(HfConfig::Open(folder.path())->eos_ids(), (std::vector<int64_t>{4}));
  folder.Write("generation_config.json", "");
  EXPECT_FALSE(HfConfig::Open(folder.path()));
}

}  // namespace
}  // namespace deepinfer::formats
