#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

#include "text/utf8_detokenizer.h"

namespace deepinfer::text {
namespace {

struct Fed {
  std::string text;
  std::string before_flush;
  bool stopped = false;
  int index = -1;
};

Fed Feed(std::vector<std::string> stops, const std::vector<std::string>& chunks) {
  auto matcher = StopMatcher::Create(std::move(stops));
  EXPECT_TRUE(matcher.has_value());
  Fed run;
  const auto take = [&](const StopMatcher::Output& output) {
    run.text += output.text;
    if (output.stopped) {
      run.stopped = true;
      run.index = output.stop_index;
    }
  };
  for (const std::string& chunk : chunks) take(matcher->Push(chunk));
  run.before_flush = run.text;
  take(matcher->Flush());
  return run;
}

TEST(StopMatcher, AcrossTokens) {
  const Fed run = Feed({"own fox"}, {"The quick", " br", "own", " fo", "x", " jumps"});
  EXPECT_EQ(run.text, "The quick br");
  EXPECT_TRUE(run.stopped);
  EXPECT_EQ(run.index, 0);
}

TEST(StopMatcher, WhatOnlyLookedLikeAStopComesOut) {
  const Fed stopped = Feed({"\nUser:"}, {"hi", "\nUser", ":"});
  EXPECT_EQ(stopped.text, "hi");
  EXPECT_TRUE(stopped.stopped);
  const Fed kept = Feed({"\nUser:"}, {"hi", "\nUse", "ful"});
  EXPECT_EQ(kept.text, "hi\nUseful");
  EXPECT_EQ(kept.before_flush, "hi\nUseful");  // not held until the end
  EXPECT_FALSE(kept.stopped);
  const Fed held = Feed({"\nUser:"}, {"hi", "\nUse"});
  EXPECT_EQ(held.before_flush, "hi");
  EXPECT_EQ(held.text, "hi\nUse");
}

TEST(StopMatcher, HoldsOnlyASuffixThatCanBecomeAStop) {
  auto matcher = StopMatcher::Create({"a long stop string"});
  ASSERT_TRUE(matcher.has_value());
  EXPECT_EQ(matcher->Push("some text").text, "some text");
  EXPECT_EQ(matcher->Push(" a lo").text, " ");
  EXPECT_EQ(matcher->Push("st").text, "a lost");
}

TEST(StopMatcher, EarliestPositionWins) {
  const Fed both = Feed({"ab", "b"}, {"xa", "b"});
  EXPECT_EQ(both.text, "x");
  EXPECT_EQ(both.index, 0);
  // "bc" stands first in time, "abcX" first in place.
  const Fed later = Feed({"bc", "abcX"}, {"zabc", "X"});
  EXPECT_EQ(later.text, "z");
  EXPECT_EQ(later.index, 1);
  const Fed not_it = Feed({"bc", "abcX"}, {"zabc", "Y"});
  EXPECT_EQ(not_it.text, "za");
  EXPECT_EQ(not_it.index, 0);
  const Fed at_end = Feed({"bc", "abcX"}, {"zabc"});
  EXPECT_EQ(at_end.text, "za");
  EXPECT_TRUE(at_end.stopped);
}

TEST(StopMatcher, AfterAHeldCharacter) {
  Utf8Detokenizer detokenizer;
  auto matcher = StopMatcher::Create({"\xE8\xB5\x8B!"});
  ASSERT_TRUE(matcher.has_value());
  std::string sent;
  bool stopped = false;
  for (const char* bytes : {"ok", "\xE8\xB5", "\x8B", "!", "more"}) {
    const auto output = matcher->Push(detokenizer.Push(bytes));
    sent += output.text;
    stopped |= output.stopped;
  }
  EXPECT_EQ(sent, "ok");
  EXPECT_TRUE(stopped);
}

TEST(StopMatcher, NothingAfterTheStop) {
  auto matcher = StopMatcher::Create({"x"});
  ASSERT_TRUE(matcher.has_value());
  EXPECT_TRUE(matcher->Push("axb").stopped);
  EXPECT_EQ(matcher->Push("cd").text, "");
  EXPECT_EQ(matcher->Flush().text, "");
}

TEST(StopMatcher, EmptyStopIsRefused) {
  const auto matcher = StopMatcher::Create({"a", ""});
  ASSERT_FALSE(matcher.has_value());
  EXPECT_EQ(matcher.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(matcher.error().where, "stop");
}

TEST(StopMatcher, NoStops) {
  EXPECT_EQ(Feed({}, {"a", "b"}).before_flush, "ab");
}

// The definition: the leftmost occurrence in the whole text.
TEST(StopMatcher, CutsDoNotMatter) {
  std::mt19937 random(7);
  const auto word = [&](int longest) {
    std::string out;
    for (int length = 1 + random() % longest; length > 0; --length) out += static_cast<char>('a' + random() % 2);
    return out;
  };
  for (int round = 0; round < 3000; ++round) {
    const std::vector<std::string> stops = {word(5), word(3), word(6)};
    const std::string text = word(14);
    size_t first = std::string::npos;
    for (const std::string& stop : stops) first = std::min(first, text.find(stop));
    std::vector<std::string> chunks;
    for (size_t at = 0; at < text.size();) {
      const size_t length = 1 + random() % 4;
      chunks.push_back(text.substr(at, length));
      at += length;
    }
    const Fed run = Feed(stops, chunks);
    ASSERT_EQ(run.stopped, first != std::string::npos) << text;
    ASSERT_EQ(run.text, text.substr(0, first)) << text;
  }
}

}  // namespace
}  // namespace deepinfer::text
