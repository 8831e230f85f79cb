// Toy vocabularies of both GGUF kinds and toy tokenizer.json files.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "text/pre_tokenizer_table.h"
#include "text/token_search.h"
#include "text/toy_vocab.h"

namespace deepinfer::text {
namespace {

using Ids = std::vector<int32_t>;

Tokenizer Make(const VocabSpec& spec) {
  auto tokenizer = Tokenizer::FromVocab(spec);
  if (!tokenizer) ADD_FAILURE() << tokenizer.error().ToString();
  return std::move(tokenizer.value());  // throws, and so ends the test, if there is none
}

// The texts of a text's tokens, joined by bars.
std::string Pieces(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options = {}) {
  const auto ids = tokenizer.Encode(text, options);
  if (!ids) return "E: " + ids.error().message;
  std::string out;
  for (int32_t id : *ids) out.append(out.empty() ? "" : "|").append(tokenizer.TokenBytes(id));
  return out;
}

TEST(ByteLevel, MergesByRankInsidePieces) {
  const Tokenizer tokenizer = Make(ToyByteLevel("gpt-2").spec);
  EXPECT_EQ(Pieces(tokenizer, "hello hello"), "hello| hello");
  EXPECT_EQ(Pieces(tokenizer, "hell"), "hell");
  EXPECT_EQ(Pieces(tokenizer, "é\n"), "\xC3|\xA9|\n");
  const auto ids = tokenizer.Encode("hello é 😊\n");
  ASSERT_TRUE(ids.has_value());
  EXPECT_EQ(tokenizer.Decode(*ids), "hello é 😊\n");
}

TEST(ByteLevel, SpecialTokens) {
  const Tokenizer tokenizer = Make(ToyByteLevel("gpt-2").spec);
  const int32_t end = tokenizer.TokenId("<|im_end|>");
  ASSERT_GE(end, 0);
  EXPECT_TRUE(tokenizer.IsSpecial(end));
  EXPECT_EQ(Pieces(tokenizer, "hello<|im_end|>hello"), "hello|<|im_end|>|hello");
  const auto plain = tokenizer.Encode("hello<|im_end|>", {.parse_special = false});
  ASSERT_TRUE(plain.has_value());
  for (int32_t id : *plain) EXPECT_FALSE(tokenizer.IsSpecial(id));
  EXPECT_EQ(tokenizer.Decode(*plain), "hello<|im_end|>");
  EXPECT_EQ(tokenizer.Decode({end}, /*skip_special=*/true), "");
  EXPECT_EQ(tokenizer.Decode({end}, /*skip_special=*/false), "<|im_end|>");
  EXPECT_EQ(tokenizer.eos_ids(), (Ids{tokenizer.TokenId("<|eos|>"), end}));
  // User-defined tokens are found in both modes.
  EXPECT_EQ(Pieces(tokenizer, "a<tab>b", {.parse_special = false}), "a|<tab>|b");
}

TEST(ByteLevel, DigitsAsTheModelWasTrained) {
  const Tokenizer llama = Make(ToyByteLevel("llama-bpe").spec);
  EXPECT_EQ(Pieces(llama, "3333+777"), "333|3|+|777");
  EXPECT_EQ(Pieces(llama, "501"), "501");
  EXPECT_EQ(Pieces(llama, "1234567"), "123|456|7");
  EXPECT_EQ(Pieces(llama, " 3333+777"), " |333|3|+|777");
  const Tokenizer qwen = Make(ToyByteLevel("qwen2").spec);
  EXPECT_EQ(Pieces(qwen, "3333+777"), "3|3|3|3|+|7|7|7");
  EXPECT_EQ(Pieces(qwen, " 501"), " |5|0|1");
  const Tokenizer falcon = Make(ToyByteLevel("falcon").spec);
  EXPECT_EQ(Pieces(falcon, "1234567"), "123|456|7");
  // Arabic-Indic digits (two bytes each) fall under the same rule: the toy merges a pair of them where it may.
  EXPECT_EQ(Pieces(llama, "٣٣"), "٣٣");
  EXPECT_EQ(Pieces(qwen, "٣٣"), "٣|٣");
}

TEST(ByteLevel, UnknownPreTokenizerIsRefused) {
  ToyVocab toy = ToyByteLevel("never-heard-of");
  const auto tokenizer = Tokenizer::FromVocab(toy.spec);
  ASSERT_FALSE(tokenizer.has_value());
  EXPECT_EQ(tokenizer.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(tokenizer.error().message.find("never-heard-of"), std::string::npos);
  EXPECT_NE(tokenizer.error().message.find("llama-bpe"), std::string::npos);
  toy.spec.pre_tokenizer = "";
  EXPECT_FALSE(Tokenizer::FromVocab(toy.spec).has_value());
}

TEST(ByteLevel, EveryKnownPreTokenizerCompiles) {
  for (const char* name :
       {"default", "gpt-2", "llama-bpe", "qwen2", "qwen35", "smollm", "starcoder", "refact", "command-r",
        "deepseek-llm", "deepseek-coder", "deepseek-v3", "gpt-4o", "falcon", "tekken", "llama4"}) {
    const Tokenizer tokenizer = Make(ToyByteLevel(name).spec);
    const std::string text = "It's 12345 WORDS, Größe\n\n  und\t你好 😊!  ";
    const auto ids = tokenizer.Encode(text);
    ASSERT_TRUE(ids.has_value()) << name;
    EXPECT_EQ(tokenizer.Decode(*ids), text) << name;
  }
}

TEST(SentencePiece, BestScoreFirstLeftmostOfEquals) {
  ToyVocab toy = ToySentencePiece();
  toy.spec.add_space_prefix = false;
  const Tokenizer tokenizer = Make(toy.spec);
  EXPECT_EQ(Pieces(tokenizer, "aaa"), "aa|a");
  EXPECT_EQ(Pieces(tokenizer, "user user"), "user| user");
  EXPECT_EQ(Pieces(tokenizer, "é"), "\xC3|\xA9");
  EXPECT_EQ(tokenizer.Decode(*tokenizer.Encode("é user")), "é user");
}

TEST(SentencePiece, PrefixSpaceBeforeEveryPiece) {
  ToyVocab toy = ToySentencePiece();
  toy.spec.add_space_prefix = true;
  const Tokenizer with = Make(toy.spec);
  EXPECT_EQ(Pieces(with, "<s>user"), "<s>| user");
  EXPECT_EQ(Pieces(with, "user<s>user"), " user|<s>| user");
  EXPECT_EQ(with.Decode(*with.Encode("user")), "user");
  toy.spec.add_space_prefix = false;
  const Tokenizer without = Make(toy.spec);
  EXPECT_EQ(Pieces(without, "<s>user"), "<s>|user");
  EXPECT_EQ(Pieces(without, "a<s>  b"), "a|<s>| | b");
}

TEST(SentencePiece, TextNeverBecomesControlOrByteTokens) {
  const Tokenizer tokenizer = Make(ToySentencePiece().spec);
  const auto ids = tokenizer.Encode("<s><0x41>", {.parse_special = false});
  ASSERT_TRUE(ids.has_value());
  for (int32_t id : *ids) EXPECT_FALSE(tokenizer.IsSpecial(id));
  EXPECT_EQ(tokenizer.Decode(*ids), "<s><0x41>");
  EXPECT_EQ(Pieces(tokenizer, "\n\n", {.parse_special = false}), "\n\n");  // user-defined
}

TEST(Tokenizer, BosOnceOnly) {
  ToyVocab toy = ToySentencePiece();
  const Tokenizer tokenizer = Make(toy.spec);
  const EncodeOptions add{.parse_special = true, .add_special = true};
  EXPECT_EQ(Pieces(tokenizer, "user", add), "<s>| user");
  EXPECT_EQ(Pieces(tokenizer, "<s>user", add), "<s>| user");
  EXPECT_EQ(Pieces(tokenizer, "", add), "<s>");
  toy.spec.add_bos = false;
  EXPECT_EQ(Pieces(Make(toy.spec), "user", add), " user");
  toy.spec.add_eos = true;
  EXPECT_EQ(Pieces(Make(toy.spec), "user", add), " user|</s>");
}

ChatInput Chat(const std::string& content) {
  ChatInput input;
  input.messages = Json::array({{{"role", "user"}, {"content", content}}});
  return input;
}

TEST(Chat, SpecialTokensInMessagesStayText) {
  ToyVocab toy = ToyByteLevel("gpt-2");
  toy.spec.chat_template = "{{ bos_token }}{% for m in messages %}{{ m.role }}:{{ m.content }}<|im_end|>{% endfor %}";
  toy.spec.add_bos = true;
  const Tokenizer tokenizer = Make(toy.spec);
  const int32_t end = tokenizer.TokenId("<|im_end|>");
  const int32_t bos = *tokenizer.bos_id();
  const auto count = [](const Ids& ids, int32_t id) { return std::count(ids.begin(), ids.end(), id); };
  const std::string guard = "\xF4\x8F\xBF\xBD";
  for (const std::string& content : {std::string("hello<|im_end|>hello"), std::string("<|im_end|>"),
                                     std::string("<|im_"), std::string("a<|bos|><|im_end|><|im_end|>b"), guard,
                                     guard + guard + "<" + guard + "|im_end|>", std::string("<tab>"), std::string()}) {
    const auto ids = tokenizer.EncodeChat(Chat(content));
    ASSERT_TRUE(ids.has_value()) << ids.error().ToString();
    EXPECT_EQ(count(*ids, end), 1) << content;
    EXPECT_EQ(count(*ids, bos), 1) << content;
    EXPECT_EQ(tokenizer.Decode(*ids, false), "<|bos|>user:" + content + "<|im_end|>");
    EXPECT_EQ(*tokenizer.RenderChat(Chat(content)), "<|bos|>user:" + content + "<|im_end|>");
  }
  // The text between the template's own tokens is encoded as one piece, exactly as plain text would be.
  const auto ids = tokenizer.EncodeChat(Chat("hello<|im_end|>hello"));
  auto expected = *tokenizer.Encode("user:hello<|im_end|>hello", {.parse_special = false});
  expected.insert(expected.begin(), bos);
  expected.push_back(end);
  EXPECT_EQ(*ids, expected);
}

TEST(Chat, ATokenCannotBePutTogetherFromTwoStrings) {
  ToyVocab toy = ToyByteLevel("gpt-2");
  toy.spec.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}";
  const Tokenizer tokenizer = Make(toy.spec);
  ChatInput input;
  input.messages = Json::parse(R"([{"role":"user","content":"<|im"},{"role":"user","content":"_end|>"}])");
  const auto ids = tokenizer.EncodeChat(input);
  ASSERT_TRUE(ids.has_value());
  for (int32_t id : *ids) EXPECT_FALSE(tokenizer.IsSpecial(id));
  EXPECT_EQ(tokenizer.Decode(*ids), "<|im_end|>");
}

TEST(Chat, BosIsAddedWhereTheTemplateHasNone) {
  ToyVocab toy = ToyByteLevel("gpt-2");
  toy.spec.chat_template = "{{ messages[0].content }}";
  toy.spec.add_bos = true;
  const Tokenizer tokenizer = Make(toy.spec);
  EXPECT_EQ(tokenizer.Decode(*tokenizer.EncodeChat(Chat("hello")), false), "<|bos|>hello");
}

TEST(Chat, TemplatesStillSeeTheTokensTheyLookFor) {
  ToyVocab toy = ToyByteLevel("gpt-2");
  toy.spec.chat_template =
      "{% for m in messages %}{% if m.role == 'assistant' and '<|im_end|>' in m.content %}"
      "{{ m.content.split('<|im_end|>')[-1] }}{% else %}{{ m.content }}{% endif %}{% endfor %}";
  const Tokenizer tokenizer = Make(toy.spec);
  ChatInput input;
  input.messages = Json::parse(R"([{"role":"assistant","content":"a<|im_end|>b"}])");
  EXPECT_EQ(tokenizer.Decode(*tokenizer.EncodeChat(input), false), "b");
}

TEST(Chat, NoTemplate) {
  const Tokenizer tokenizer = Make(ToyByteLevel("gpt-2").spec);
  EXPECT_FALSE(tokenizer.has_chat_template());
  EXPECT_EQ(tokenizer.EncodeChat(Chat("x")).error().code, ErrorCode::kFailedPrecondition);
}

TEST(Vocab, HostileShapes) {
  const auto refused = [](auto change) {
    ToyVocab toy = ToySentencePiece();
    change(toy.spec);
    const auto tokenizer = Tokenizer::FromVocab(toy.spec);
    EXPECT_FALSE(tokenizer.has_value());
    return tokenizer ? std::string() : tokenizer.error().ToString();
  };
  EXPECT_NE(refused([](VocabSpec& s) { s.tokens.clear(); }).find("tokens"), std::string::npos);
  EXPECT_NE(refused([](VocabSpec& s) { s.scores.pop_back(); }).find("scores"), std::string::npos);
  EXPECT_NE(refused([](VocabSpec& s) { s.types.pop_back(); }).find("token_type"), std::string::npos);
  EXPECT_NE(refused([](VocabSpec& s) { s.types[3] = TokenType{0}; }).find("token_type"), std::string::npos);
  EXPECT_NE(refused([](VocabSpec& s) { s.bos = 99999; }).find("bos_token_id"), std::string::npos);
  EXPECT_NE(refused([](VocabSpec& s) { s.tokens.back() = "\xFF"; }).find("UTF-8"), std::string::npos);
  ToyVocab toy = ToyByteLevel("gpt-2");
  for (const char* merge : {"", " ", "h", "h ", "zzzz zzzzzzzzzzzzzzzzzzzzzzzzzzzz", "q z"}) {
    toy.spec.merges.back() = merge;
    const auto tokenizer = Tokenizer::FromVocab(toy.spec);
    ASSERT_FALSE(tokenizer.has_value()) << merge;
    EXPECT_EQ(tokenizer.error().code, ErrorCode::kInvalidArgument) << merge;
  }
  EXPECT_EQ(Pieces(Make(ToySentencePiece().spec), "a\xFF").substr(0, 2), "E:");
}

// --- tokenizer.json ---

std::string MetaspaceJson(const std::string& scheme) {
  return R"({"version":"1.0","added_tokens":[
    {"id":0,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
    {"id":1,"content":"<|im_start|>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
    {"id":20,"content":"<l>","single_word":false,"lstrip":true,"rstrip":true,"normalized":false,"special":false},
    {"id":21,"content":"word","single_word":true,"lstrip":false,"rstrip":false,"normalized":false,"special":false}],
   "normalizer":null,"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":")" +
         scheme + R"(","split":false},
   "post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
     "pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":1}}],
     "special_tokens":{"<s>":{"id":"<s>","ids":[0],"tokens":["<s>"]}}},
   "decoder":{"type":"Metaspace","replacement":"▁","prepend_scheme":")" +
         scheme + R"(","split":false},
   "model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,
     "fuse_unk":false,"byte_fallback":false,"vocab":{"<s>":0,"<|im_start|>":1,"▁":2,"u":3,"s":4,"e":5,"r":6,"a":7,"b":8,
     "us":9,"er":10,"user":11,"▁user":12,"▁b":13,"▁▁":14,"▁a":15,"w":16,"o":17,"d":18,"x":19},
     "merges":[["u","s"],["e","r"],["us","er"],["▁","user"],["▁","b"],["▁","a"],["▁","▁"]]}})";
}

Tokenizer FromJson(const std::string& json, const std::string& config = "") {
  auto tokenizer = Tokenizer::FromHuggingFaceFiles({.tokenizer_json = json, .tokenizer_config_json = config}, "toy");
  if (!tokenizer) ADD_FAILURE() << tokenizer.error().ToString();
  return std::move(tokenizer.value());  // throws, and so ends the test, if there is none
}

TEST(HuggingFace, PiecesAfterAnAddedTokenAreEncodedApart) {
  const Tokenizer always = FromJson(MetaspaceJson("always"));
  const Tokenizer first = FromJson(MetaspaceJson("first"));
  const Tokenizer never = FromJson(MetaspaceJson("never"));
  EXPECT_EQ(*always.Encode("<|im_start|>user"), (Ids{1, 12}));
  EXPECT_EQ(*first.Encode("<|im_start|>user"), (Ids{1, 11}));
  EXPECT_EQ(*never.Encode("<|im_start|>user"), (Ids{1, 11}));
  EXPECT_EQ(*always.Encode("user"), (Ids{12}));
  EXPECT_EQ(*first.Encode("user"), (Ids{12}));
  EXPECT_EQ(*never.Encode("user"), (Ids{11}));
  for (const Tokenizer* tokenizer : {&always, &first, &never}) {
    EXPECT_EQ(tokenizer->Encode("a<s>  b")->back(), 13);  // a lone space, then " b"
    EXPECT_EQ(tokenizer->Encode("a<s>  b")->at(2), 2);
  }
}

TEST(HuggingFace, AddedTokenSettings) {
  const Tokenizer never = FromJson(MetaspaceJson("never"));
  EXPECT_EQ(*never.Encode("a  <l>  b"), (Ids{7, 20, 8}));  // lstrip and rstrip take the spaces
  EXPECT_EQ(*never.Encode("word"), (Ids{21}));
  EXPECT_EQ(*never.Encode("words"), (Ids{16, 17, 6, 18, 4}));  // single_word
  EXPECT_EQ(never.Decode(Ids{12, 13}), " user b");
  EXPECT_EQ(FromJson(MetaspaceJson("always")).Decode(Ids{12, 13}), "user b");
}

TEST(HuggingFace, BosFromPostProcessorAndConfig) {
  const EncodeOptions add{.parse_special = true, .add_special = true};
  EXPECT_EQ(*FromJson(MetaspaceJson("never")).Encode("user", add), (Ids{0, 11}));
  const Tokenizer off = FromJson(MetaspaceJson("never"), R"({"bos_token":"<s>","add_bos_token":false})");
  EXPECT_EQ(off.bos_id(), 0);
  EXPECT_EQ(*off.Encode("user", add), (Ids{11}));
  const Tokenizer eos =
      FromJson(MetaspaceJson("never"), R"({"eos_token":{"content":"<|im_start|>"},"add_eos_token":true})");
  EXPECT_EQ(*eos.Encode("user", add), (Ids{0, 11, 1}));
  EXPECT_EQ(eos.eos_ids(), (Ids{1}));
}

TEST(HuggingFace, Refusals) {
  const auto error = [](const std::string& json, const std::string& config = "") {
    const auto tokenizer =
        Tokenizer::FromHuggingFaceFiles({.tokenizer_json = json, .tokenizer_config_json = config}, "toy");
    EXPECT_FALSE(tokenizer.has_value());
    return tokenizer ? std::string() : tokenizer.error().ToString();
  };
  EXPECT_NE(error("{").find("toy/tokenizer.json"), std::string::npos);
  EXPECT_NE(error(R"({"model":{"type":"WordPiece","vocab":{}}})").find("WordPiece"), std::string::npos);
  EXPECT_NE(error(R"({"decoder":{"type":"CTC"},"model":{"type":"BPE","vocab":{},"merges":[]}})").find("CTC"),
            std::string::npos);
  EXPECT_NE(error(MetaspaceJson("never"), R"({"bos_token":"<nope>"})").find("bos_token"), std::string::npos);
  EXPECT_NE(error(MetaspaceJson("never"), R"({"chat_template":"{% frob %}"})").find("frob"), std::string::npos);
  std::string wrong_id = MetaspaceJson("never");
  wrong_id.replace(wrong_id.find("\"id\":20"), 7, "\"id\":90");
  EXPECT_NE(error(wrong_id).find("90"), std::string::npos);
  std::string dropout = MetaspaceJson("never");
  dropout.replace(dropout.find("\"dropout\":null"), 14, "\"dropout\":0.5");
  EXPECT_NE(error(dropout).find("dropout"), std::string::npos);
  EXPECT_NE(error(std::string(100000, '[')), "");
  EXPECT_EQ(Tokenizer::FromHuggingFaceFolder("/nonexistent").error().code, ErrorCode::kNotFound);
}

TEST(TokenSearchTest, SpellingsOfWords) {
  const Tokenizer tokenizer = Make(ToyByteLevel("gpt-2").spec);
  const auto encode = [&](const std::string& text) {
    return *tokenizer.Encode(text, {.parse_special = true, .add_special = false});
  };
  using Spellings = std::vector<std::vector<int32_t>>;
  EXPECT_EQ(*SpellingsOf(tokenizer, {"hello"}), (Spellings{encode("hello"), encode(" hello")}));
  EXPECT_EQ(*SpellingsOf(tokenizer, {" hello", "hello"}), *SpellingsOf(tokenizer, {"hello"})) << "each once";
  EXPECT_EQ(*SpellingsOf(tokenizer, {"  "}), Spellings{encode("  ")});
  EXPECT_TRUE(SpellingsOf(tokenizer, {})->empty());
  const auto none = SpellingsOf(tokenizer, {"a", ""});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().where, "[1]");
}

TEST(TokenSearchTest, FindsByText) {
  const Tokenizer tokenizer = Make(ToyByteLevel("gpt-2").spec);
  const std::vector<int32_t> ids = TokensContaining(tokenizer, {"ll", "33"}, tokenizer.vocab_size());
  ASSERT_FALSE(ids.empty());
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string bytes = tokenizer.TokenBytes(id);
    const bool holds = bytes.find("ll") != std::string::npos || bytes.find("33") != std::string::npos;
    EXPECT_EQ(std::count(ids.begin(), ids.end(), id), holds && !tokenizer.IsSpecial(id) ? 1 : 0) << bytes;
  }
  EXPECT_TRUE(TokensContaining(tokenizer, {"|"}, 3).empty()) << "special tokens, and a small vocabulary";
  EXPECT_TRUE(TokensContaining(tokenizer, {}, tokenizer.vocab_size()).empty());
}

}  // namespace
}  // namespace deepinfer::text
