#include "backend/capture.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace deepinfer::backend {
namespace {

constexpr GraphMode kBreakable = GraphMode::kBreakable;
constexpr GraphMode kFull = GraphMode::kFull;

// A function that writes its letter to a trace each time it runs.
SegmentFunction Trace(std::string* trace, char letter) {
  return [trace, letter]() -> Status {
    trace->push_back(letter);
    return {};
  };
}

SegmentFunction Failing() {
  return []() -> Status { return MakeError(ErrorCode::kCancelled, "test", "on purpose"); };
}

SegmentFunction Throwing() {
  return []() -> Status { throw std::runtime_error("thrown on purpose"); };
}

TEST(CaptureTest, WithoutBreaksThereIsOneGraphThatRunsOnlyAtReplay) {
  std::string trace;
  GraphCapture capture;
  ASSERT_TRUE(capture.Begin());
  ASSERT_TRUE(capture.AddSegment(Trace(&trace, 'a')));
  ASSERT_TRUE(capture.AddSegment(Trace(&trace, 'b')));
  auto list = capture.End();
  ASSERT_TRUE(list);
  EXPECT_EQ(trace, "");
  EXPECT_EQ(list->graphs(), 1);
  EXPECT_EQ(list->breaks(), 0);
  ASSERT_TRUE(list->Replay());
  EXPECT_EQ(trace, "ab");
}

TEST(CaptureTest, TwoBreaksGiveGEGEGInOrderAndOnlyTheBreaksRunAtCapture) {
  std::string trace;
  GraphCapture capture;
  ASSERT_TRUE(capture.Begin());
  ASSERT_TRUE(capture.AddSegment(Trace(&trace, 'a')));
  ASSERT_TRUE(EagerBreak("first", Trace(&trace, '1'), kBreakable));
  ASSERT_TRUE(capture.AddSegment(Trace(&trace, 'b')));
  ASSERT_TRUE(EagerBreak("second", Trace(&trace, '2'), kBreakable));
  ASSERT_TRUE(capture.AddSegment(Trace(&trace, 'c')));
  auto list = capture.End();
  ASSERT_TRUE(list);
  EXPECT_EQ(trace, "12");
  EXPECT_EQ(list->graphs(), 3);
  EXPECT_EQ(list->breaks(), 2);
  std::string kinds;
  for (const Segment& segment : list->segments()) kinds += segment.is_break ? 'E' : 'G';
  EXPECT_EQ(kinds, "GEGEG");
  EXPECT_EQ(list->segments()[3].name, "second");
  trace.clear();
  ASSERT_TRUE(list->Replay());
  EXPECT_EQ(trace, "a1b2c");
  list->Clear();
  EXPECT_EQ(list->graphs() + list->breaks(), 0);
}

TEST(CaptureTest, BackToBackBreaksKeepTheEmptyGraphsBetween) {
  std::string trace;
  GraphCapture capture;
  ASSERT_TRUE(capture.Begin());
  ASSERT_TRUE(EagerBreak("first", Trace(&trace, '1'), kBreakable));
  ASSERT_TRUE(EagerBreak("second", Trace(&trace, '2'), kBreakable));
  auto list = capture.End();
  ASSERT_TRUE(list);
  EXPECT_EQ(list->graphs(), 3);
  EXPECT_EQ(list->breaks(), 2);
  ASSERT_TRUE(list->Replay());
  EXPECT_EQ(trace, "1212");
}

TEST(CaptureTest, EachReplaySeesNewInputs) {
  float input = 0, middle = 0, output = 0;
  GraphCapture capture;
  ASSERT_TRUE(capture.Begin());
  const auto doubled = [&]() -> Status { return middle = 2 * input, Status(); };
  ASSERT_TRUE(capture.AddSegment(doubled));
  ASSERT_TRUE(EagerBreak("plus one", [&]() -> Status { return middle += 1, Status(); }, kBreakable));
  ASSERT_TRUE(capture.AddSegment([&]() -> Status { return output = middle * middle, Status(); }));
  auto list = capture.End();
  ASSERT_TRUE(list);
  for (const float value : {3.0f, 5.0f}) {
    input = value;
    ASSERT_TRUE(list->Replay());
    EXPECT_EQ(output, (2 * value + 1) * (2 * value + 1));
  }
}

TEST(CaptureTest, NestedCaptureIsAnErrorAndTheOuterOneStaysUsable) {
  std::string trace;
  GraphCapture outer;
  ASSERT_TRUE(outer.Begin());
  ASSERT_TRUE(outer.AddSegment(Trace(&trace, 'a')));
  {
    GraphCapture inner;
    const Status begun = inner.Begin();
    ASSERT_FALSE(begun);
    EXPECT_EQ(begun.error().code, ErrorCode::kFailedPrecondition);
    EXPECT_FALSE(inner.AddSegment(Trace(&trace, 'x')));
    EXPECT_FALSE(inner.End());
  }
  EXPECT_FALSE(outer.Begin());
  EXPECT_EQ(GraphCapture::Current(), &outer);
  ASSERT_TRUE(outer.AddSegment(Trace(&trace, 'b')));
  auto list = outer.End();
  ASSERT_TRUE(list);
  ASSERT_TRUE(list->Replay());
  EXPECT_EQ(trace, "ab");
}

TEST(CaptureTest, ABreakInsideABreakRunsInlineAndDoesNotSplit) {
  std::string trace;
  GraphCapture capture;
  ASSERT_TRUE(capture.Begin());
  const auto outer_break = [&]() -> Status {
    trace += '(';
    DI_RETURN_IF_ERROR(EagerBreak("inner", Trace(&trace, 'i'), kBreakable));
    if (GraphCapture* current = GraphCapture::Current()) DI_RETURN_IF_ERROR(current->AddSegment(Trace(&trace, 's')));
    trace += ')';
    return {};
  };
  ASSERT_TRUE(EagerBreak("outer", outer_break, kBreakable));
  auto list = capture.End();
  ASSERT_TRUE(list);
  EXPECT_EQ(trace, "(is)");
  EXPECT_EQ(list->graphs(), 2);
  EXPECT_EQ(list->breaks(), 1);
  EXPECT_TRUE(list->segments()[0].functions.empty());
  trace.clear();
  ASSERT_TRUE(list->Replay());
  EXPECT_EQ(trace, "(i)");
}

TEST(CaptureTest, ABreakOutsideOfACaptureIsACall) {
  std::string trace;
  ASSERT_TRUE(EagerBreak("break", Trace(&trace, '1'), kBreakable));
  ASSERT_TRUE(EagerBreak("break", Trace(&trace, '2'), kFull));
  EXPECT_EQ(trace, "12");
  const Status failed = EagerBreak("break", Failing(), kBreakable);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kCancelled);
}

// A few layers of float arithmetic whose order matters, with a break in the middle of each.
struct SmallNet {
  std::array<float, 8> x{};

  Status Mix(int layer) {
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = std::fma(x[(i + 3) % x.size()], 1.0f / static_cast<float>(layer + 3), x[i] * 0.7f);
    }
    return {};
  }
  Status Normalise() {
    float sum = 0;
    for (const float value : x) sum += value * value;
    for (float& value : x) value /= std::sqrt(sum + 1e-6f);
    return {};
  }
  Result<SegmentList> Capture(GraphMode mode) {
    GraphCapture capture;
    DI_RETURN_IF_ERROR(capture.Begin());
    for (int layer = 0; layer < 3; ++layer) {
      DI_RETURN_IF_ERROR(capture.AddSegment([this, layer] { return Mix(layer); }));
      DI_RETURN_IF_ERROR(EagerBreak("normalise", [this] { return Normalise(); }, mode));
    }
    return capture.End();
  }
};

TEST(CaptureTest, FullModeInlinesAndEqualsBreakableBitForBit) {
  SmallNet full, breakable;
  auto full_list = full.Capture(kFull);
  auto breakable_list = breakable.Capture(kBreakable);
  ASSERT_TRUE(full_list);
  ASSERT_TRUE(breakable_list);
  EXPECT_EQ(full_list->graphs(), 1);
  EXPECT_EQ(full_list->breaks(), 0);
  EXPECT_EQ(full_list->segments()[0].functions.size(), 6u);
  EXPECT_EQ(breakable_list->graphs(), 4);
  EXPECT_EQ(breakable_list->breaks(), 3);
  for (int seed = 1; seed <= 4; ++seed) {
    for (size_t i = 0; i < full.x.size(); ++i) full.x[i] = std::sin(static_cast<float>(seed * 8 + i));
    breakable.x = full.x;
    ASSERT_TRUE(full_list->Replay());
    ASSERT_TRUE(breakable_list->Replay());
    EXPECT_EQ(std::memcmp(full.x.data(), breakable.x.data(), sizeof(full.x)), 0);
    EXPECT_NE(full.x[0], 0.0f);
  }
}

TEST(CaptureTest, AKeyIsCapturedOnceAndReplayedLater) {
  CapturedOnce<int> graphs;
  int recordings = 0;
  std::string trace;
  const auto record = [&]() -> Status {
    ++recordings;
    DI_RETURN_IF_ERROR(GraphCapture::Current()->AddSegment(Trace(&trace, 'g')));
    return EagerBreak("break", Trace(&trace, 'e'), kBreakable);
  };
  ASSERT_TRUE(graphs.Run(4, {}, record));
  EXPECT_EQ(trace, "e");
  ASSERT_TRUE(graphs.Run(4, {}, record));
  ASSERT_TRUE(graphs.Run(4, {}, record));
  EXPECT_EQ(trace, "egege");
  EXPECT_EQ(recordings, 1);
  ASSERT_TRUE(graphs.Run(8, {}, record));
  EXPECT_EQ(recordings, 2);
  EXPECT_EQ(graphs.size(), 2u);
  EXPECT_EQ(graphs.Find(4)->graphs(), 2);
  graphs.Clear();
  ASSERT_TRUE(graphs.Run(4, {}, record));
  EXPECT_EQ(recordings, 3);
}

TEST(CaptureTest, AFailedBreakEndsTheCaptureAndTheKeyIsCapturedAgain) {
  for (const SegmentFunction& broken : {Failing(), Throwing()}) {
    CapturedOnce<int> graphs;
    std::string trace;
    const auto bad = [&]() -> Status {
      DI_RETURN_IF_ERROR(GraphCapture::Current()->AddSegment(Trace(&trace, 'g')));
      EXPECT_FALSE(EagerBreak("broken", broken, kBreakable));
      EXPECT_FALSE(EagerBreak("after", Trace(&trace, 'x'), kBreakable));
      EXPECT_FALSE(GraphCapture::Current()->AddSegment(Trace(&trace, 'x')));
      return {};  // swallows the error: End still reports it
    };
    const Status failed = graphs.Run(1, {}, bad);
    ASSERT_FALSE(failed);
    EXPECT_NE(failed.error().message.find("on purpose"), std::string::npos) << failed.error().ToString();
    EXPECT_EQ(GraphCapture::Current(), nullptr);
    EXPECT_EQ(graphs.size(), 0u);
    EXPECT_EQ(trace, "");
    ASSERT_TRUE(graphs.Run(1, {}, [&] { return EagerBreak("good", Trace(&trace, 'e'), kBreakable); }));
    ASSERT_TRUE(graphs.Run(1, {}, Failing()));
    EXPECT_EQ(trace, "ee");
  }
}

TEST(CaptureTest, AFailedRecordingStoresNothing) {
  CapturedOnce<int> graphs;
  EXPECT_FALSE(graphs.Run(1, {}, Failing()));
  EXPECT_EQ(GraphCapture::Current(), nullptr);
  EXPECT_FALSE(graphs.Run(1, {}, Throwing()));
  EXPECT_EQ(GraphCapture::Current(), nullptr);
  EXPECT_EQ(graphs.size(), 0u);
}

TEST(CaptureTest, AnExceptionThatPassesTheCaptureFreesTheThread) {
  EXPECT_THROW(
      {
        GraphCapture capture;
        ASSERT_TRUE(capture.Begin());
        throw std::runtime_error("passes by");
      },
      std::runtime_error);
  EXPECT_EQ(GraphCapture::Current(), nullptr);
  GraphCapture next;
  EXPECT_TRUE(next.Begin());
  EXPECT_TRUE(next.End());
}

TEST(CaptureTest, ABreakThatEndsItsOwnCaptureIsAnError) {
  GraphCapture capture;
  ASSERT_TRUE(capture.Begin());
  const auto ends = [&]() -> Status {
    EXPECT_FALSE(capture.End());
    return {};
  };
  EXPECT_FALSE(EagerBreak("ends", ends, kBreakable));
  EXPECT_EQ(GraphCapture::Current(), nullptr);
}

TEST(CaptureTest, ReplayStopsAtTheFirstError) {
  std::string trace;
  bool fail = false;
  GraphCapture capture;
  ASSERT_TRUE(capture.Begin());
  ASSERT_TRUE(capture.AddSegment(Trace(&trace, 'a')));
  const auto sometimes = [&]() -> Status {
    if (fail) throw std::runtime_error("at replay");
    return {};
  };
  ASSERT_TRUE(EagerBreak("sometimes", sometimes, kBreakable));
  ASSERT_TRUE(capture.AddSegment(Trace(&trace, 'b')));
  auto list = capture.End();
  ASSERT_TRUE(list);
  fail = true;
  const Status failed = list->Replay();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().where, "sometimes");
  EXPECT_EQ(trace, "a");
  fail = false;
  ASSERT_TRUE(list->Replay());
  EXPECT_EQ(trace, "aab");
}

TEST(CaptureTest, OtherThreadsSeeNoCapture) {
  std::string trace, other_trace;
  GraphCapture capture;
  ASSERT_TRUE(capture.Begin());
  std::thread([&] {
    EXPECT_EQ(GraphCapture::Current(), nullptr);
    EXPECT_TRUE(EagerBreak("call", Trace(&other_trace, 'o'), kBreakable));
    EXPECT_FALSE(capture.AddSegment(Trace(&trace, 'x')));
    EXPECT_FALSE(capture.End());
    GraphCapture own;
    EXPECT_TRUE(own.Begin());
    EXPECT_TRUE(own.AddSegment(Trace(&other_trace, 'p')));
    auto list = own.End();
    ASSERT_TRUE(list);
    EXPECT_TRUE(list->Replay());
  }).join();
  EXPECT_EQ(other_trace, "op");
  ASSERT_TRUE(capture.AddSegment(Trace(&trace, 'a')));
  auto list = capture.End();
  ASSERT_TRUE(list);
  EXPECT_EQ(list->breaks(), 0);
  ASSERT_TRUE(list->Replay());
  EXPECT_EQ(trace, "a");
}

TEST(CaptureTest, AChangedAddressIsDetectedAndNamed) {
  CapturedOnce<int> graphs;
  std::string trace;
  int ids = 0, slots = 0, elsewhere = 0;
  const auto record = [&] { return GraphCapture::Current()->AddSegment(Trace(&trace, 'g')); };
  const std::vector<NamedAddress> captured = {{"token_ids", &ids}, {"slots", &slots}};
  ASSERT_TRUE(graphs.Run(1, captured, record));
  ASSERT_TRUE(graphs.Run(1, captured, record));
  const std::vector<NamedAddress> moved = {{"token_ids", &ids}, {"slots", &elsewhere}};
  const Status failed = graphs.Run(1, moved, record);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(failed.error().where, "slots");
  EXPECT_EQ(trace, "g");
}

}  // namespace
}  // namespace deepinfer::backend
