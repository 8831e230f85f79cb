#include "engine/text_stream.h"

#include <gtest/gtest.h>

#include "text/toy_vocab.h"

namespace deepinfer::engine {
namespace {

class TextStreamTest : public ::testing::Test {
 protected:
  TextStreamTest() {
    const text::ToyVocab vocab = text::ToyByteLevel("gpt-2");
    auto tokenizer = text::Tokenizer::FromVocab(vocab.spec);
    if (!tokenizer) {
      ADD_FAILURE() << tokenizer.error().ToString();
      return;
    }
    tokenizer_.emplace(std::move(*tokenizer));
  }

  std::vector<int32_t> Encode(const std::string& text) {
    auto ids = tokenizer_->Encode(text, {.parse_special = true});
    EXPECT_TRUE(ids);
    return ids ? *ids : std::vector<int32_t>();
  }
  // One token per byte.
  std::vector<int32_t> Bytes(const std::string& text) {
    std::vector<int32_t> ids;
    for (const char byte : text) {
      for (int32_t id = 0; id < tokenizer_->vocab_size(); ++id) {
        if (tokenizer_->TokenBytes(id) == std::string(1, byte)) {
          ids.push_back(id);
          break;
        }
      }
    }
    EXPECT_EQ(ids.size(), text.size());
    return ids;
  }
  TextStream Stream(std::vector<std::string> stops = {}) {
    auto stream = TextStream::Create(&*tokenizer_, std::move(stops));
    EXPECT_TRUE(stream);
    return std::move(*stream);
  }
  static std::string PushAll(TextStream* stream, const std::vector<int32_t>& ids) {
    std::string out;
    for (const int32_t id : ids) out += stream->Push(id);
    return out;
  }

  std::optional<text::Tokenizer> tokenizer_;
};

TEST_F(TextStreamTest, PlainTextComesAtOnce) {
  TextStream stream = Stream();
  for (const int32_t id : Encode("hello hello")) EXPECT_EQ(stream.Push(id), tokenizer_->TokenBytes(id));
  EXPECT_EQ(stream.Finish(), "");
  EXPECT_EQ(stream.text(), "hello hello");
  EXPECT_FALSE(stream.stopped());
}

TEST_F(TextStreamTest, CharactersComeWhole) {
  TextStream stream = Stream();
  std::vector<std::string> pieces;
  for (const int32_t id : Bytes("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z")) pieces.push_back(stream.Push(id));
  const std::vector<std::string> expected = {"a", "", "\xC3\xA9",         "", "", "\xE2\x82\xAC", "",
                                             "",  "", "\xF0\x9F\x98\x80", "z"};
  EXPECT_EQ(pieces, expected);
  EXPECT_EQ(stream.Finish(), "");
}

TEST_F(TextStreamTest, AnUnfinishedCharacterBecomesAReplacement) {
  TextStream stream = Stream();
  EXPECT_EQ(PushAll(&stream, Bytes("a\xF0\x9F")), "a");
  EXPECT_EQ(stream.Finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.text(), "a\xEF\xBF\xBD");
}

TEST_F(TextStreamTest, SpecialTokensAreHidden) {
  TextStream stream = Stream();
  const std::vector<int32_t> ids = Encode("<|bos|>hello<|im_end|><tab>");
  ASSERT_EQ(ids.size(), 4u);
  EXPECT_EQ(PushAll(&stream, ids), "hello<tab>") << "a user-defined token is text";
  EXPECT_EQ(stream.Push(-1) + stream.Push(1 << 20), "") << "ids outside the vocabulary";
}

TEST_F(TextStreamTest, AStopStringAcrossTokens) {
  TextStream stream = Stream({"lo h"});
  std::vector<std::string> pieces;
  for (const int32_t id : Bytes("hello hello")) pieces.push_back(stream.Push(id));
  EXPECT_EQ(pieces, std::vector<std::string>({"h", "e", "", "l", "", "", "", "", "", "", ""}));
  EXPECT_TRUE(stream.stopped());
  EXPECT_EQ(stream.text(), "hel");
  EXPECT_EQ(stream.Finish(), "");
}

TEST_F(TextStreamTest, WhatOnlyLooksLikeAStopComesOut) {
  TextStream stream = Stream({"hellx", "lo hx"});
  EXPECT_EQ(PushAll(&stream, Encode("hello")), "hel");
  EXPECT_EQ(PushAll(&stream, Bytes(" ha")), "lo ha");
  EXPECT_EQ(PushAll(&stream, Bytes("hel")), "");
  EXPECT_EQ(stream.Finish(), "hel");
  EXPECT_FALSE(stream.stopped());
}

TEST_F(TextStreamTest, AStopInsideOneTokenCutsIt) {
  TextStream stream = Stream({"ll"});
  EXPECT_EQ(PushAll(&stream, Encode("hello hello")), "he");
  EXPECT_TRUE(stream.stopped());
}

TEST_F(TextStreamTest, AStopOfSeveralBytesPerCharacter) {
  TextStream stream = Stream({"\xE2\x82\xAC"});
  EXPECT_EQ(PushAll(&stream, Bytes("5\xE2\x82\xAC!")), "5");
  EXPECT_TRUE(stream.stopped());
}

TEST_F(TextStreamTest, AHiddenTokenDoesNotBreakAStop) {
  TextStream stream = Stream({"hh"});
  std::vector<int32_t> ids = Bytes("ah");
  ids.push_back(Encode("<|im_end|>").front());
  ids.push_back(Bytes("h").front());
  EXPECT_EQ(PushAll(&stream, ids), "a");
  EXPECT_TRUE(stream.stopped());
}

TEST_F(TextStreamTest, AnEmptyStopIsRefused) {
  auto stream = TextStream::Create(&*tokenizer_, {"ok", ""});
  ASSERT_FALSE(stream);
  EXPECT_EQ(stream.error().where, "stop");
}

}  // namespace
}  // namespace deepinfer::engine
