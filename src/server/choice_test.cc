#include "server/choice.h"

#include <gtest/gtest.h>

#include "text/toy_vocab.h"

namespace deepinfer::server {
namespace {

constexpr int32_t kEos = 1;

int32_t Byte(unsigned char byte) {
  return 4 + byte;
}

class ChoiceTest : public testing::Test {
 protected:
  ChoiceTest() {
    const text::ToyVocab vocab = text::ToyByteLevel("gpt-2");
    auto tokenizer = text::Tokenizer::FromVocab(vocab.spec);
    if (tokenizer) tokenizer_.emplace(std::move(*tokenizer));
  }
  void SetUp() override { ASSERT_TRUE(tokenizer_); }

  // All of what comes for these bytes, one token each, and the end of text if no stop string came before it.
  ChoiceDelta Run(const std::string& bytes, std::vector<std::string> stops, bool eos = true) {
    auto choice = Choice::Create({&*tokenizer_, std::move(stops), {kEos, Byte('#')}, {Byte('#')}, /*logprobs=*/true});
    EXPECT_TRUE(choice);
    ChoiceDelta all;
    engine::FinishEvent finish;
    finish.reason = engine::FinishReason::kLength;
    const auto push = [&](int32_t id) {
      engine::TokenEvent event;
      event.id = id;
      ChoiceDelta delta;
      const bool goes_on = choice->Push(event, &delta);
      largest_ = std::max(largest_, delta.logprobs.size());
      all.Append(std::move(delta));
      // What was let out so far agrees, at every step.
      EXPECT_LE(JoinedBytes(all).size(), all.text.size());
      return goes_on;
    };
    bool goes_on = true;
    for (size_t i = 0; i < bytes.size() && goes_on; ++i) goes_on = push(Byte(static_cast<unsigned char>(bytes[i])));
    if (goes_on && eos) push(kEos);
    if (!goes_on || eos) finish.reason = engine::FinishReason::kStop;
    ChoiceDelta end;
    choice->Finish(finish, &end);
    all.Append(std::move(end));
    return all;
  }

  static std::string JoinedBytes(const ChoiceDelta& delta) {
    std::string joined;
    for (const LogprobEntry& entry : delta.logprobs) joined += entry.bytes;
    return joined;
  }

  std::optional<text::Tokenizer> tokenizer_;
  size_t largest_ = 0;  // entries that came with one token
};

TEST_F(ChoiceTest, TextAndEntriesAreTheSame) {
  const std::string text = "The quick brown fox, \xe8\xb5\x8b\xf0\x9f\x98\x8a";
  const ChoiceDelta all = Run(text, {});
  EXPECT_EQ(all.text, text);
  EXPECT_EQ(JoinedBytes(all), text);
  EXPECT_EQ(all.ids.size(), text.size() + 1);
  EXPECT_EQ(all.logprobs.size(), text.size());
  EXPECT_EQ(largest_, 4u);  // the four tokens of one character come together
  EXPECT_TRUE(all.stop_reason.is_null());
  EXPECT_EQ(all.finish->reason, engine::FinishReason::kStop);
}

TEST_F(ChoiceTest, StopStringsCutEntries) {
  for (const auto& [text, stop, left] :
       {std::tuple("The quick brown fox", "own fox", "The quick br"), std::tuple("aab", "ab", "a"),
        std::tuple("ab", "ab", ""), std::tuple("abc", "zzz", "abc"), std::tuple("ab", "abc", "ab")}) {
    const ChoiceDelta all = Run(text, {stop});
    EXPECT_EQ(all.text, left);
    EXPECT_EQ(JoinedBytes(all), left);
    EXPECT_EQ(all.stop_reason, std::string(text) != left ? Json(stop) : Json());
  }
}

TEST_F(ChoiceTest, AStopStringThatWaitedUntilTheEnd) {
  // "abcX" begins before "bc" and may still come.
  const ChoiceDelta all = Run("abc", {"abcX", "bc"}, /*eos=*/false);
  EXPECT_EQ(all.text, "a");
  EXPECT_EQ(JoinedBytes(all), "a");
  EXPECT_EQ(all.stop_reason, "bc");
  EXPECT_EQ(all.finish->reason, engine::FinishReason::kStop);
}

TEST_F(ChoiceTest, StopTokensHaveNoText) {
  const ChoiceDelta all = Run("ab#", {});
  EXPECT_EQ(all.text, "ab");
  EXPECT_EQ(JoinedBytes(all), "ab");
  EXPECT_EQ(all.stop_reason, Byte('#'));
}

TEST_F(ChoiceTest, BadBytes) {
  const ChoiceDelta all =
      Run("a\x80"
          "b\xf0\x9f",
          {});
  EXPECT_EQ(all.text,
            "a\uFFFD"
            "b\uFFFD");
  EXPECT_EQ(all.logprobs.size(), 5u);
}

TEST_F(ChoiceTest, WithoutATokenizer) {
  auto choice = Choice::Create({nullptr, {}, {kEos}, {}, true});
  ASSERT_TRUE(choice);
  ChoiceDelta all;
  engine::TokenEvent event;
  event.id = 70;
  event.logprob = -1;
  EXPECT_TRUE(choice->Push(event, &all));
  EXPECT_EQ(all.ids, std::vector<int32_t>{70});
  ASSERT_EQ(all.logprobs.size(), 1u);
  EXPECT_EQ(all.logprobs[0].logprob, -1.0f);
}

}  // namespace
}  // namespace deepinfer::server
