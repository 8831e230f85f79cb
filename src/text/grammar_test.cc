// Grammars on a vocabulary of bytes and a few merges: random walks through the masks must give what the grammar says.
#include "text/grammar.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>

#include "text/toy_vocab.h"

namespace deepinfer::text {
namespace {

using nlohmann::json;

class GrammarTest : public ::testing::Test {
 protected:
  GrammarTest()
      : tokenizer_(*Tokenizer::FromVocab(ToyByteLevel("gpt-2").spec)),
        vocab_(tokenizer_.vocab_size() + 40),
        compiler_(*GrammarCompiler::Create(tokenizer_, vocab_)) {}

  std::unique_ptr<TokenConstraint> Start(const GrammarSpec& spec) {
    const auto grammar = compiler_.Compile(spec);
    EXPECT_TRUE(grammar) << (grammar ? "" : grammar.error().ToString());
    if (!grammar) return nullptr;
    auto start = (*grammar)->Start();
    EXPECT_TRUE(start) << (start ? "" : start.error().ToString());
    return start ? std::move(*start) : nullptr;
  }

  std::vector<int32_t> Mask(TokenConstraint* constraint) const {
    std::vector<uint32_t> words(static_cast<size_t>(vocab_ + 31) / 32, 0xffffffff);
    const Status status = constraint->ComputeMask(words.data(), static_cast<int64_t>(words.size()));
    EXPECT_TRUE(status) << (status ? "" : status.error().ToString());
    std::vector<int32_t> ids;
    for (size_t i = 0; i < words.size() * 32; ++i) {
      if ((words[i / 32] >> (i % 32) & 1) != 0) ids.push_back(static_cast<int32_t>(i));
    }
    return ids;
  }

  // Random tokens of the masks until the end. nullopt if it is not there after `most` tokens.
  std::optional<std::string> Walk(const GrammarSpec& spec, uint32_t seed, int most = 300) {
    const auto constraint = Start(spec);
    if (constraint == nullptr) return std::nullopt;
    std::mt19937 random(seed);
    std::string text;
    for (int i = 0; i < most; ++i) {
      if (constraint->IsFinished()) return text;
      const std::vector<int32_t> allowed = Mask(constraint.get());
      EXPECT_FALSE(allowed.empty()) << text;
      if (allowed.empty()) return std::nullopt;
      const bool may_end = std::count(allowed.begin(), allowed.end(), End()) > 0;
      EXPECT_EQ(may_end, constraint->IsAccepting()) << text;
      if (may_end && random() % 3 == 0) return text;
      const int32_t id = Choose(allowed, &random);
      if (tokenizer_.IsSpecial(id)) continue;
      text += tokenizer_.TokenBytes(id);
      const Status status = constraint->Accept(id);
      EXPECT_TRUE(status) << (status ? "" : status.error().ToString()) << " after " << text;
    }
    return std::nullopt;
  }

  // Printable ASCII more often, and the quote above all: strings should come to an end.
  int32_t Choose(const std::vector<int32_t>& allowed, std::mt19937* random) const {
    for (int attempt = 0;; ++attempt) {
      const int32_t id = allowed[(*random)() % allowed.size()];
      const std::string bytes = tokenizer_.TokenBytes(id);
      const bool plain = !bytes.empty() && bytes[0] >= 32 && bytes[0] < 127 && bytes[0] != '\\';
      if (attempt > 20 || (plain && !tokenizer_.IsSpecial(id))) return id;
      for (const int32_t quote : allowed) {
        if ((*random)() % 4 == 0 && tokenizer_.TokenBytes(quote) == "\"") return quote;
      }
    }
  }

  int32_t End() const { return tokenizer_.eos_ids().front(); }

  // All walks end in what `right` accepts; at least some of them do end.
  void Check(const GrammarSpec& spec, const std::function<bool(const std::string&)>& right, int walks = 30) {
    int ended = 0;
    for (int seed = 0; seed < walks; ++seed) {
      const auto text = Walk(spec, static_cast<uint32_t>(seed));
      if (!text) continue;
      ++ended;
      EXPECT_TRUE(right(*text)) << *text;
    }
    EXPECT_GT(ended, walks / 3);
  }
  void CheckSchema(const json& schema, const std::function<bool(const json&)>& right) {
    Check({GrammarKind::kJsonSchema, schema.dump(), {}}, [&](const std::string& text) {
      const json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
      return !value.is_discarded() && right(value);
    });
  }

  // Refused, in bounded time.
  Error Refused(const GrammarSpec& spec) {
    const auto start = std::chrono::steady_clock::now();
    const auto grammar = compiler_.Compile(spec);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    EXPECT_FALSE(grammar) << spec.source.substr(0, 200);
    return grammar ? Error{} : grammar.error();
  }
  std::string RefusedSchema(const json& schema) {
    const Error error = Refused({GrammarKind::kJsonSchema, schema.dump(), {}});
    EXPECT_EQ(error.where, "json_schema");
    return error.message;
  }

  Tokenizer tokenizer_;
  int64_t vocab_;
  GrammarCompiler compiler_;
};

TEST_F(GrammarTest, JsonObjects) {
  Check({GrammarKind::kJsonObject, "", {}}, [](const std::string& text) {
    try {
      return json::parse(text).is_object();
    } catch (const json::out_of_range&) {
      return true;  // JSON, with a number such as 1E501 that no double holds
    } catch (const json::exception&) {
      return false;
    }
  });
}

TEST_F(GrammarTest, SchemasHold) {
  CheckSchema({{"type", "object"},
               {"properties",
                {{"name", {{"type", "string"}, {"maxLength", 8}}},
                 {"age", {{"type", "integer"}, {"minimum", 0}, {"maximum", 150}}},
                 {"tags", {{"type", "array"}, {"items", {{"enum", {"a", "b", "c"}}}}, {"maxItems", 3}}}}},
               {"required", {"name", "age"}},
               {"additionalProperties", false}},
              [](const json& value) {
                if (!value["name"].is_string() || !value["age"].is_number_integer()) return false;
                if (value["age"] < 0 || value["age"] > 150 || value.size() > 3) return false;
                for (const json& tag : value.value("tags", json::array())) {
                  if (tag != "a" && tag != "b" && tag != "c") return false;
                }
                return value.size() == 2 || value.contains("tags");
              });
  CheckSchema({{"type", "object"}, {"properties", json::object()}, {"additionalProperties", false}},
              [](const json& value) { return value == json::object(); });
  CheckSchema({{"anyOf", {{{"type", "null"}}, {{"type", "boolean"}}, {{"const", "x"}}}}},
              [](const json& value) { return value.is_null() || value.is_boolean() || value == "x"; });
  CheckSchema(
      {{"type", "array"}, {"items", {{"type", "string"}, {"pattern", "^(\\d+|imap:[a-c]+)$"}}}, {"maxItems", 2}},
      [](const json& value) {
        static const std::regex kItem("([0-9]+|imap:[a-c]+)");
        return std::all_of(value.begin(), value.end(),
                           [](const json& item) { return std::regex_match(item.get<std::string>(), kItem); });
      });
  CheckSchema({{"type", "string"}, {"pattern", "7"}, {"maxLength", 20}}, [](const json& value) {
    return value.get<std::string>().find('7') != std::string::npos;  // unanchored: contains
  });
  CheckSchema({{"$ref", "#/$defs/node"},
               {"$defs",
                {{"node",
                  {{"type", "object"},
                   {"properties", {{"v", {{"type", "boolean"}}}, {"next", {{"$ref", "#/$defs/node"}}}}},
                   {"required", {"v"}},
                   {"additionalProperties", false}}}}}},
              [](const json& value) {
                const json* node = &value;
                for (; node->contains("next"); node = &(*node)["next"]) {
                  if (!(*node)["v"].is_boolean()) return false;
                }
                return (*node)["v"].is_boolean();
              });
}

TEST_F(GrammarTest, JsonIsCompact) {
  const json schema = {{"type", "object"},
                       {"properties", {{"a", {{"const", 1}}}, {"b", {{"enum", {{{"x", 1}}}}}}}},
                       {"required", {"a", "b"}},
                       {"additionalProperties", false}};
  EXPECT_EQ(Walk({GrammarKind::kJsonSchema, schema.dump(), {}}, 1), R"({"a":1,"b":{"x":1}})");
}

// Long strings are counted, not unrolled.
TEST_F(GrammarTest, LongBoundsCompile) {
  const json text = {{"type", "string"}, {"maxLength", 65536}};
  const json schema = {{"type", "object"},
                       {"properties", {{"a", {{"type", "object"}, {"properties", {{"b", text}}}}}}}};
  EXPECT_NE(Start({GrammarKind::kJsonSchema, schema.dump(), {}}), nullptr);
}

TEST_F(GrammarTest, RegexChoiceLark) {
  Check({GrammarKind::kRegex, "[a-c]{2,4}x|(?:12/)+", {}},
        [](const std::string& text) { return std::regex_match(text, std::regex("[a-c]{2,4}x|(?:12/)+")); });
  const std::vector<std::string> choices = {"hello", "help", "say \"hi\"\n", "über", "a\\d|b"};
  std::set<std::string> seen;
  Check({GrammarKind::kChoice, "", choices}, [&](const std::string& text) {
    seen.insert(text);
    return std::count(choices.begin(), choices.end(), text) > 0;
  });
  EXPECT_GE(seen.size(), 3u);
  Check({GrammarKind::kLark, "start: item (\",\" item)*\nitem: NUMBER | \"(\" start \")\"\nNUMBER: /[0-9]{1,2}/\n", {}},
        [](const std::string& text) {
          return std::count(text.begin(), text.end(), '(') == std::count(text.begin(), text.end(), ')') &&
                 std::regex_match(text, std::regex("[0-9,()]+"));
        });
}

TEST_F(GrammarTest, ClonesGoTheirOwnWays) {
  const auto first = Start({GrammarKind::kChoice, "", {"ab", "cd"}});
  const auto second = first->Clone();
  const int32_t a = tokenizer_.TokenId("a"), b = tokenizer_.TokenId("b"), c = tokenizer_.TokenId("c");
  ASSERT_TRUE(first->Accept(a));
  EXPECT_EQ(Mask(first.get()), std::vector<int32_t>{b});
  EXPECT_EQ(Mask(second.get()), (std::vector<int32_t>{a, c}));
  EXPECT_FALSE(first->IsFinished());
  ASSERT_TRUE(first->Accept(b));
  EXPECT_TRUE(first->IsFinished());
  EXPECT_TRUE(first->IsAccepting());
  EXPECT_FALSE(second->IsAccepting());
  EXPECT_FALSE(second->Accept(b)) << "not allowed here";
}

// Its lexer runs out of its budget after some tokens. Others of the same grammar, begun before or after, copied or not,
// go on as if it were alone.
TEST_F(GrammarTest, WhatEndsOneSequenceEndsNoOther) {
  const GrammarSpec spec = {GrammarKind::kRegex, "((a{1,100}){1,100}){1,100}", {}};
  const auto steps_until_error = [&](TokenConstraint* constraint) {
    std::mt19937 random(1);
    std::vector<uint32_t> words(static_cast<size_t>(vocab_ + 31) / 32);
    for (int steps = 0; steps < 300; ++steps) {
      if (!constraint->ComputeMask(words.data(), static_cast<int64_t>(words.size()))) return steps;
      std::vector<int32_t> allowed;
      for (int32_t id = 0; id < vocab_; ++id) {
        if ((words[id / 32] >> (id % 32) & 1) != 0 && id != End()) allowed.push_back(id);
      }
      if (allowed.empty()) return 300;
      if (!constraint->Accept(allowed[random() % allowed.size()])) return steps;
    }
    return 300;
  };
  const auto first = Start(spec), second = Start(spec), copy = first->Clone();
  const int steps = steps_until_error(first.get());
  EXPECT_GT(steps, 0);
  ASSERT_LT(steps, 300) << "its budget is enough: this shows nothing";
  EXPECT_EQ(steps_until_error(second.get()), steps);
  EXPECT_EQ(steps_until_error(copy.get()), steps);
  EXPECT_EQ(steps_until_error(Start(spec).get()), steps);
}

TEST_F(GrammarTest, WhatWasCompiledIsKept) {
  const GrammarSpec schema = {GrammarKind::kJsonSchema, R"({"type": "boolean"})", {}};
  const auto first = compiler_.Compile(schema);
  ASSERT_TRUE(first);
  EXPECT_EQ(*compiler_.Compile(schema), *first);
  // The same text as another kind is another grammar, and so are other choices.
  const auto regex = compiler_.Compile({GrammarKind::kRegex, "ab", {}});
  const auto choices = compiler_.Compile({GrammarKind::kChoice, "", {"a", "b"}});
  const auto others = compiler_.Compile({GrammarKind::kChoice, "", {"ab"}});
  const auto lark = compiler_.Compile({GrammarKind::kLark, "start: \"ab\"", {}});
  ASSERT_TRUE(regex && choices && others && lark);
  EXPECT_EQ(
      (std::set<const TokenGrammar*>{first->get(), regex->get(), choices->get(), others->get(), lark->get()}).size(),
      5u);
  EXPECT_EQ(compiler_.cache_stats().hits, 1);
  EXPECT_EQ(compiler_.cache_stats().misses, 5);
  Refused({GrammarKind::kRegex, "(a", {}});
  Refused({GrammarKind::kRegex, "(a", {}});
  EXPECT_EQ(compiler_.cache_stats().misses, 7) << "failures are not kept";
  EXPECT_EQ(compiler_.cache_stats().grammars, 5);

  const auto small = GrammarCompiler::Create(tokenizer_, vocab_, {.grammars = 1, .source_bytes = 1000});
  ASSERT_TRUE(small);
  const auto before = small->Compile(schema);
  ASSERT_TRUE(before && small->Compile({GrammarKind::kRegex, "ab", {}}));
  EXPECT_NE(*small->Compile(schema), *before) << "it was pushed out, and goes on where it is used";
  EXPECT_TRUE((*before)->Start());
}

TEST_F(GrammarTest, WhatCannotBeHonouredIsRefusedWithItsPlace) {
  const auto at = [](const char* keyword, json value) {
    return json{{"type", "object"}, {"properties", {{"a/b", {{keyword, std::move(value)}}}}}};
  };
  for (const char* keyword : {"not", "if", "uniqueItems", "contains", "propertyNames", "dependentRequired",
                              "unevaluatedProperties", "maxLenght", "nullable", "x-guidance"}) {
    const std::string message = RefusedSchema(at(keyword, json(true)));
    EXPECT_NE(message.find("at /properties/a~1b"), std::string::npos) << message;
    EXPECT_NE(message.find(keyword), std::string::npos) << message;
  }
  EXPECT_NE(RefusedSchema(at("$ref", "https://example.org/x.json")).find("/properties/a~1b/$ref"), std::string::npos);
  EXPECT_NE(RefusedSchema(at("format", "no-such-format")).find("at /properties/a~1b:"), std::string::npos);
  EXPECT_NE(RefusedSchema({{"items", {{"type", "string"}, {"pattern", "("}}}}).find("at /items:"), std::string::npos);
  EXPECT_NE(RefusedSchema({{"$ref", "#/$defs/nowhere"}}).find("nowhere"), std::string::npos);
  EXPECT_NE(RefusedSchema({{"type", "integer"}, {"minimum", 5}, {"maximum", 4}}).find("at /:"), std::string::npos);
  RefusedSchema(json(false));
  RefusedSchema(json(7));
  RefusedSchema({{"type", "strnig"}});
  RefusedSchema({{"properties", 3}});
  Refused({GrammarKind::kJsonSchema, "{\"type\":", {}});
  Refused({GrammarKind::kRegex, "(a", {}});
  Refused({GrammarKind::kRegex, "a\xff", {}});
  Refused({GrammarKind::kLark, "begin: \"x\"", {}});
  Refused({GrammarKind::kLark, "start: unknown", {}});
  Refused({GrammarKind::kChoice, "", {}});
  Refused({GrammarKind::kChoice, "", {"a", ""}});
}

// Annotations and extensions say nothing about the value.
TEST_F(GrammarTest, AnnotationsAreFine) {
  CheckSchema({{"type", "boolean"}, {"title", "t"}, {"deprecated", true}, {"x-order", 3}, {"examples", {true}}},
              [](const json& value) { return value.is_boolean(); });
}

json Nested(int depth, const char* keyword) {
  json schema = {{"type", "null"}};
  for (int i = 0; i < depth; ++i) schema = {{"type", "array"}, {keyword, std::move(schema)}};
  return schema;
}

// Compiled or refused, in bounded time; never a crash.
TEST_F(GrammarTest, HostileInputEnds) {
  const auto tame = [&](const GrammarSpec& spec) {
    const auto begin = std::chrono::steady_clock::now();
    const auto grammar = compiler_.Compile(spec);
    int steps = 0;
    if (grammar) {
      const auto constraint = (*grammar)->Start();
      std::mt19937 random(1);
      while (constraint && steps < 40 && !(*constraint)->IsFinished()) {
        std::vector<uint32_t> words(static_cast<size_t>(vocab_ + 31) / 32);
        if (!(*constraint)->ComputeMask(words.data(), static_cast<int64_t>(words.size()))) break;
        std::vector<int32_t> allowed;
        for (int32_t id = 0; id < tokenizer_.vocab_size(); ++id) {
          if ((words[id / 32] >> (id % 32) & 1) != 0 && !tokenizer_.IsSpecial(id)) allowed.push_back(id);
        }
        if (allowed.empty() || !(*constraint)->Accept(allowed[random() % allowed.size()])) break;
        ++steps;
      }
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_LT(seconds, 30) << spec.source.substr(0, 80);
    return grammar ? std::string() : grammar.error().message;
  };
  const auto schema = [&](const json& value) { return tame({GrammarKind::kJsonSchema, value.dump(), {}}); };
  EXPECT_EQ(schema(Nested(40, "items")), "");
  EXPECT_NE(schema(Nested(150, "items")), "");
  EXPECT_NE(tame({GrammarKind::kJsonSchema, std::string(100000, '['), {}}), "");
  std::string deep;
  for (int i = 0; i < 20000; ++i) deep += "{\"items\":";
  EXPECT_NE(tame({GrammarKind::kJsonSchema, deep, {}}), "");

  json names = json::array();
  for (int i = 0; i < 20000; ++i) names.push_back("name_" + std::to_string(i * 7919));
  schema({{"enum", names}});
  tame({GrammarKind::kChoice, "", names.get<std::vector<std::string>>()});

  json chain = {{"$ref", "#/$defs/d0"}, {"$defs", json::object()}};
  for (int i = 0; i < 5000; ++i)
    chain["$defs"]["d" + std::to_string(i)] = {{"$ref", "#/$defs/d" + std::to_string(i + 1)}};
  chain["$defs"]["d5000"] = {{"type", "null"}};
  schema(chain);
  schema({{"$ref", "#"}});
  schema({{"$ref", "#/$defs/a"}, {"$defs", {{"a", {{"$ref", "#/$defs/b"}}}, {"b", {{"$ref", "#/$defs/a"}}}}}});
  schema({{"allOf", {{{"$ref", "#"}}}}});
  schema({{"anyOf", {{{"$ref", "#"}}, {{"$ref", "#"}}}}});
  json both = {{"type", "object"}, {"properties", {{"a", {{"type", "string"}}}}}};
  for (int i = 0; i < 14; ++i) both = {{"allOf", {both, both}}};
  EXPECT_NE(schema(both), "") << "2^14 parts";
  schema({{"type", "array"}, {"minItems", 1000000000}, {"items", {{"type", "null"}}}});
  schema({{"type", "string"}, {"minLength", 1000000000}});
  schema({{"type", "number"}, {"multipleOf", 1e-300}});
  schema({{"type", "integer"}, {"multipleOf", 1000000007}, {"maximum", 1e18}});

  for (const char* regex : {"(a+)+b", "(a|a)*b", "((a{1,100}){1,100}){1,100}", "(.*a){60}", ".{0,100000}x.{0,100000}",
                            "(?:(?:a|b|ab)*c){500}", "[a-z]*[0-9]{30}(x?){200}y", "(x+x+)+y"}) {
    tame({GrammarKind::kRegex, regex, {}});
  }
  tame({GrammarKind::kRegex, std::string(30000, '(') + "a" + std::string(30000, ')'), {}});
  EXPECT_NE(tame({GrammarKind::kRegex, std::string(100000, 'a'), {}}), "") << "too long";
  tame({GrammarKind::kLark, "start: " + std::string(30000, '(') + "\"a\"" + std::string(30000, ')'), {}});
  tame({GrammarKind::kLark, "start: start start | \"a\" | start start start", {}});
  tame({GrammarKind::kLark, "start: start", {}});
}

}  // namespace
}  // namespace deepinfer::text
