// Damaged templates, tokenizer.json files and vocabularies: an answer or an error, never a crash.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "text/tokenizer.h"
#include "text/toy_vocab.h"

namespace deepinfer::text {
namespace {

constexpr uint32_t kSeed = 20240612;

// One to three changes: bytes flipped, spans removed, doubled or swapped for a word from the list.
std::string Mutate(std::string text, const std::vector<std::string>& words, std::mt19937& random) {
  for (int changes = 1 + random() % 3; changes > 0 && !text.empty(); --changes) {
    const size_t at = random() % text.size();
    const size_t length = std::min<size_t>(1 + random() % 12, text.size() - at);
    switch (random() % 5) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(random() % text.size(), 1 + random() % 12));
        break;
      case 3:
        text.replace(at, length, words[random() % words.size()]);
        break;
      default:
        text.insert(at, words[random() % words.size()]);
        break;
    }
  }
  return text;
}

// kInternal is a panic inside a library, caught by the bridge: clumsy, but harmless. Our own code has none to show.
bool IsCaught(const Error& error) {
  return error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kUnsupported ||
         error.code == ErrorCode::kInternal;
}
bool IsClean(const Error& error) {
  return error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kUnsupported;
}

TEST(Mutation, Templates) {
  const std::string source =
      "{%- if messages[0]['role'] == 'system' %}{{- messages[0].content|trim + '\\n' }}{%- endif %}\n"
      "{% set ns = namespace(n=0, last=none) %}{# note #}\n"
      "{%- for m in messages[::-1] %}{% if m.content is string %}{{ m.content.split('x')[-1].strip() }}{% else %}"
      "{{ raise_exception('bad') }}{% endif %}{% set ns.n = ns.n + loop.index0 %}{% generation %}{{ m|tojson(indent=2) "
      "}}"
      "{% endgeneration %}{% if loop.last %}{% break %}{% endif %}{% endfor %}{{ ns.n ~ strftime_now('%Y') }}"
      "{% macro f(a, b=2) %}{{ a * b }}{% endmacro %}{{ f(3) }}{{ tools[:2]|string if tools else 'none' }}";
  const std::vector<std::string> words = {"{%",
                                          "%}",
                                          "{{",
                                          "}}",
                                          "-%}",
                                          "{#",
                                          "for",
                                          "endfor",
                                          "if",
                                          "[::-1]",
                                          "|tojson",
                                          "(",
                                          ")",
                                          "'",
                                          "~",
                                          "1e308",
                                          "*",
                                          "-1",
                                          "é",
                                          "\xFF",
                                          "raw",
                                          "endraw",
                                          "is",
                                          "not",
                                          "loop",
                                          "none",
                                          "range(",
                                          "%s|format",
                                          "{% generation %}",
                                          "recursive",
                                          "super()"};
  std::mt19937 random(kSeed);
  ChatInput input;
  input.messages = Json::parse(R"([{"role":"system","content":"s"},{"role":"user","content":"axb"}])");
  int rendered = 0;
  for (int round = 0; round < 6000; ++round) {
    const std::string mutated = Mutate(source, words, random);
    const auto compiled = ChatTemplate::Compile(mutated, "t");
    if (!compiled) {
      ASSERT_TRUE(IsClean(compiled.error())) << "round " << round << ": " << compiled.error().ToString() << "\n"
                                             << mutated;
      continue;
    }
    const auto text = compiled->Render(input, Json::object());
    if (text) {
      ++rendered;
    } else {
      ASSERT_TRUE(IsCaught(text.error())) << "round " << round << ": " << text.error().ToString() << "\n" << mutated;
    }
  }
  EXPECT_GT(rendered, 100);
}

TEST(Mutation, TokenizerJson) {
  const std::string json =
      R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[{"id":0,"content":"<s>","single_word":false,)"
      R"("lstrip":false,"rstrip":true,"normalized":false,"special":true},{"id":9,"content":"<x>","single_word":true,)"
      R"("lstrip":true,"rstrip":false,"normalized":true,"special":false}],"normalizer":{"type":"Sequence","normalizers":[)"
      R"({"type":"NFC"},{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}]},)"
      R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"\\s+(?!\\S)|\\p{L}+"},)"
      R"("behavior":"Isolated","invert":false},{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true}]},)"
      R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":)"
      R"({"id":"A","type_id":0}}],"pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":1}}],)"
      R"("special_tokens":{"<s>":{"id":"<s>","ids":[0],"tokens":["<s>"]}}},"decoder":{"type":"Sequence","decoders":[)"
      R"({"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},)"
      R"({"type":"Strip","content":" ","start":1,"stop":0}]},"model":{"type":"BPE","dropout":null,"unk_token":"<s>",)"
      R"("continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":true,"byte_fallback":true,)"
      R"("ignore_merges":false,"vocab":{"<s>":0,"a":1,"b":2,"▁":3,"ab":4,"▁a":5,"c":6,"<0x41>":7,"bc":8},)"
      R"("merges":[["a","b"],["▁","a"],["b","c"]]}})";
  const std::vector<std::string> words = {"\"",
                                          "[",
                                          "]",
                                          "{",
                                          "}",
                                          ":",
                                          ",",
                                          "null",
                                          "true",
                                          "0",
                                          "-1",
                                          "99999999999",
                                          "1e400",
                                          "\\u0000",
                                          "\"BPE\"",
                                          "\"Unigram\"",
                                          "\"WordLevel\"",
                                          "\"ByteLevel\"",
                                          "\"Digits\"",
                                          "\"a\"",
                                          "(",
                                          "*",
                                          "é",
                                          "\xC3"};
  std::mt19937 random(kSeed + 1);
  int loaded = 0;
  for (int round = 0; round < 8000; ++round) {
    const std::string mutated = Mutate(json, words, random);
    const auto tokenizer = Tokenizer::FromHuggingFaceFiles({.tokenizer_json = mutated}, "toy");
    if (!tokenizer) {
      ASSERT_TRUE(IsCaught(tokenizer.error())) << mutated;
      continue;
    }
    ++loaded;
    for (const bool special : {true, false}) {
      const auto ids = tokenizer->Encode("a <s> abc <x>  é\n", {.parse_special = special, .add_special = true});
      if (!ids) continue;
      for (int32_t id : *ids) ASSERT_GE(id, 0);
      tokenizer->Decode(*ids);
    }
  }
  EXPECT_GT(loaded, 100);
}

TEST(Mutation, Vocabularies) {
  std::mt19937 random(kSeed + 2);
  int loaded = 0;
  for (int round = 0; round < 1500; ++round) {
    ToyVocab toy = round % 2 == 0 ? ToySentencePiece() : ToyByteLevel("qwen2");
    VocabSpec& spec = toy.spec;
    for (int changes = 1 + random() % 6; changes > 0; --changes) {
      const size_t at = random() % spec.tokens.size();
      switch (random() % 7) {
        case 0:
          spec.tokens[at] = toy.Keep(Mutate(std::string(spec.tokens[at]), {"▁", "<0x41>", "\xFF", "<s>"}, random));
          break;
        case 1:
          spec.types[at] = static_cast<TokenType>(random() % 9);
          break;
        case 2:
          if (!spec.scores.empty()) spec.scores[at] = random() % 2 ? NAN : -INFINITY;
          break;
        case 3:
          if (!spec.merges.empty()) {
            auto& merge = spec.merges[random() % spec.merges.size()];
            merge = toy.Keep(Mutate(std::string(merge), {" ", "h", "\xFF"}, random));
          }
          break;
        case 4:
          spec.bos = static_cast<int32_t>(random() % 600) - 100;
          break;
        case 5:
          spec.tokens[at] = spec.tokens[random() % spec.tokens.size()];
          break;
        default:
          spec.tokens[at] = "";
          break;
      }
    }
    const auto tokenizer = Tokenizer::FromVocab(spec);
    if (!tokenizer) {
      ASSERT_TRUE(IsClean(tokenizer.error())) << "round " << round << ": " << tokenizer.error().ToString();
      continue;
    }
    ++loaded;
    const auto ids = tokenizer->Encode("hello user <s> 333 é\n\n", {.parse_special = true, .add_special = true});
    ASSERT_TRUE(ids.has_value()) << ids.error().ToString();
    for (int32_t id : *ids) ASSERT_LT(id, tokenizer->vocab_size());
    tokenizer->Decode(*ids);
  }
  EXPECT_GT(loaded, 200);
}

}  // namespace
}  // namespace deepinfer::text
