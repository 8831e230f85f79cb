// Steps of several ranks: what each has of its own, and what a collective finds.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "backend/host_states.h"
#include "reference/test_util.h"

namespace deepinfer::reference {
namespace {

using backend::GraphMode;
using Floats = std::vector<float>;

ReferenceOptions Ranks(int64_t ranks) {
  return {.threads = 2, .poison_padding = true, .ranks = ranks};
}

// Two layers through one function: x times the rank's weight goes to row i of the rank's state; the result is the sum
// over all rows of all ranks' states.
const char kLayers[] = R"(module
func @step(%0: state "a" f32[2,2], %1: state "b" f32[2,2], %2: metadata "x" f32[1,2], %3: metadata "i" i32[1], %4: weight "w0" f32[2], %5: weight "w1" f32[2]) {
  %6 = call(%2, %0, %3, %4) {callee = "layer"} : f32[1,2]
  %7 = call(%6, %1, %3, %5) {callee = "layer"} : f32[1,2]
  return "y" %7, "first" %6
}
func @layer(%0: argument "x" f32[1,2], %1: state "s" f32[2,2], %2: argument "i" i32[1], %3: argument "w" f32[2]) {
  %4 = broadcast_in_dim(%3) {dims = [1]} : f32[1,2]
  %5 = mul(%0, %4) : f32[1,2]
  index_put_(%1, %2, %5) {dims = [0]}
  %6 = reduce(%1) {dims = [0], kind = "sum"} : f32[2]
  %7 = reshape(%6) : f32[1,2]
  %8 = all_reduce(%7) {group_size = 2, groups = [0, 1], kind = "sum"} : f32[1,2]
  return "y" %8
}
)";

// The same by hand; state[rank][row].
Floats Layer(const Floats& x, int row, const std::vector<Floats>& w, std::vector<std::vector<Floats>>* state) {
  Floats y = {0, 0};
  for (size_t rank = 0; rank < w.size(); ++rank) {
    for (int i = 0; i < 2; ++i) (*state)[rank][row][i] = x[i] * w[rank][i];
    for (const Floats& r : (*state)[rank]) {
      for (int i = 0; i < 2; ++i) y[i] += r[i];
    }
  }
  return y;
}

TEST(RanksTest, EachRankHasItsWeightsAndStates) {
  Step step(kLayers, Ranks(2));
  step.states = {{"a", 16}, {"b", 16}};
  step.shards = {{"w0", {{2, 3}, {5, 7}}}, {"w1", {{1, -1}, {-2, 4}}}};
  step.floats["x"] = {1, 2};
  step.ints["i"] = {0};
  step.outputs = {{"y", {0, 0}}, {"first", {0, 0}}};
  ASSERT_TRUE(step.Start());
  const std::vector<std::vector<Floats>> zero(2, {{0, 0}, {0, 0}});
  std::vector<std::vector<Floats>> a = zero, b = zero;
  for (const int row : {0, 1, 0}) {
    SCOPED_TRACE(row);
    step.ints["i"][0] = row;
    for (float& x : step.floats["x"]) x += 1;
    ASSERT_TRUE(step.Run());
    const Floats first = Layer(step.floats["x"], row, step.shards["w0"], &a);
    EXPECT_EQ(step.outputs["first"], first);
    EXPECT_EQ(step.outputs["y"], Layer(first, row, step.shards["w1"], &b));
  }
  // What a StateSet shows is of the first rank.
  EXPECT_EQ(Floats(step.State("a") + 2, step.State("a") + 4), a[0][1]);
  EXPECT_EQ(step.backend().caps().ranks, 2);
  EXPECT_EQ(step.backend().weight_bytes(), 2 * 16);
}

TEST(RanksTest, StatesAreReadAndWrittenOnTheFirstRank) {
  const auto backend = CreateReferenceBackend(Ranks(4));
  const auto states = backend->AllocateStates({{"s", 8}});
  ASSERT_TRUE(states.has_value());
  const Floats want = {3, 4};
  Floats got(1);
  ASSERT_TRUE((*states)->Write("s", 0, want.data(), 8));
  ASSERT_TRUE((*states)->Read("s", 4, got.data(), 4));
  EXPECT_EQ(got[0], 4);
  EXPECT_EQ(static_cast<float*>((*states)->Address("s"))[0], 3);
  ExpectError((*states)->Read("t", 0, got.data(), 4), ErrorCode::kNotFound, "'t'");
}

// Each operand's last use is its collective, so its memory is free right after.
const char kChain[] = R"(module
func @step(%0: metadata "rank" i32[], %1: metadata "x" f32[4]) {
  %2 = convert(%0) : f32[]
  %3 = broadcast_in_dim(%2) {dims = []} : f32[4]
  %4 = add(%1, %3) : f32[4]
  %5 = all_to_all(%4) {concat_dim = 0, group_size = 2, groups = [0, 1], split_dim = 0} : f32[4]
  %6 = all_reduce(%5) {group_size = 2, groups = [0, 1], kind = "sum"} : f32[4]
  %7 = all_gather(%6) {dim = 0, group_size = 2, groups = [0, 1]} : f32[8]
  %8 = broadcast_in_dim(%2) {dims = []} : f32[8]
  %9 = add(%7, %8) : f32[8]
  %10 = reduce_scatter(%9) {dim = 0, group_size = 2, groups = [0, 1], kind = "sum"} : f32[4]
  return "y" %10
}
)";

TEST(RanksTest, CollectivesFollowOnEachOther) {
  Step step(kChain, Ranks(2));
  step.floats["x"] = {0, 10, 20, 30};
  step.outputs["y"] = {0, 0, 0, 0};
  ASSERT_TRUE(step.Start());
  for (int run = 0; run < 2; ++run) {
    ASSERT_TRUE(step.Run());
    // [0,10,1,11] and [20,30,21,31] after all_to_all; each of the ranks adds its half of their doubled sum, plus 0
    // or 1.
    EXPECT_EQ(step.outputs["y"], (Floats{41, 81, 45, 85}));
  }
}

// A layer split over ranks the usual way: the first matrix by rows of its output, the second by columns of its input.
std::string Mlp(int64_t ranks) {
  const int64_t hidden = 8 / ranks;
  std::string groups;
  for (int64_t rank = 0; rank < ranks; ++rank) groups += (rank == 0 ? "" : ", ") + std::to_string(rank);
  return fmt::format(R"(module live(%0)
func @step(%0: metadata "live" i32[3], %1: metadata "x" f32[T:3,4], %2: weight "up" f32[{0},4], %3: weight "down" f32[5,{0}]) {{
  %4 = linear(%1, %2) : f32[T:3,{0}]
  %5 = abs(%4) : f32[T:3,{0}]
  %6 = linear(%5, %3) : f32[T:3,5]
  %7 = all_reduce(%6) {{group_size = {1}, groups = [{2}], kind = "sum"}} : f32[T:3,5]
  return "y" %7
}}
)",
                     hidden, ranks, groups);
}

TEST(RanksTest, ASplitLayerEqualsTheWholeOne) {
  const auto small = [](int i) { return static_cast<float>(i * 7 % 11 - 5); };
  Floats want;
  for (const int64_t ranks : {1, 2, 4}) {
    SCOPED_TRACE(ranks);
    Step step(Mlp(ranks), Ranks(ranks));
    const int hidden = static_cast<int>(8 / ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      Floats& up = step.shards["up"].emplace_back();
      Floats& down = step.shards["down"].emplace_back();
      for (int h = 0; h < hidden; ++h) {
        for (int k = 0; k < 4; ++k) up.push_back(small((rank * hidden + h) * 4 + k));
      }
      for (int n = 0; n < 5; ++n) {
        for (int h = 0; h < hidden; ++h) down.push_back(small(n * 8 + rank * hidden + h));
      }
    }
    step.ints["live"] = {2, 0, 0};
    step.floats["x"] = {1, 2, 3, 4, -5, 6, -7, 8, NAN, NAN, NAN, NAN};
    step.outputs["y"] = Floats(15, 77);
    ASSERT_TRUE(step.Start());
    ASSERT_TRUE(step.Run());
    EXPECT_EQ(step.outputs["y"][10], 77);  // past the live count nothing is written
    if (ranks == 1) want = step.outputs["y"];
    EXPECT_EQ(step.outputs["y"], want);
    EXPECT_NE(want[0], 0);
  }
}

TEST(RanksTest, RanksMayTakeDifferentBranches) {
  Step step(R"(module
func @step(%0: metadata "rank" i32[], %1: metadata "x" f32[2]) {
  %2 = case(%0, %1) {branches = ("keep", "twice", "negate")} : f32[2]
  %3 = all_gather(%2) {dim = 0, group_size = 4, groups = [0, 1, 2, 3]} : f32[8]
  return "y" %3
}
func @keep(%0: argument "x" f32[2]) {
  return "y" %0
}
func @twice(%0: argument "x" f32[2]) {
  %1 = add(%0, %0) : f32[2]
  return "y" %1
}
func @negate(%0: argument "x" f32[2]) {
  %1 = neg(%0) : f32[2]
  return "y" %1
}
)",
            Ranks(4));
  step.floats["x"] = {1, 3};
  step.outputs["y"] = Floats(8, 0);
  ASSERT_TRUE(step.Start());
  ASSERT_TRUE(step.Run());
  EXPECT_EQ(step.outputs["y"], (Floats{1, 3, 2, 6, -1, -3, -1, -3}));
}

// A break with a collective in its body, between others.
const char kBreaks[] = R"(module live(%0)
func @step(%0: metadata "live" i32[3], %1: metadata "x" f32[T:4], %2: metadata "rank" i32[]) {
  %3 = convert(%2) : f32[]
  %4 = broadcast_in_dim(%3) {dims = []} : f32[4]
  %5 = add(%1, %4) : f32[T:4]
  %6 = break(%5) {body = "body", name = "host"} : f32[T:4]
  %7 = mul(%6, %5) : f32[T:4]
  %8 = all_reduce(%7) {group_size = 2, groups = [0, 1], kind = "sum"} : f32[T:4]
  %9 = reduce(%8) {dims = [0], kind = "sum"} : f32[]
  return "y" %8, "sum" %9
}
func @body(%0: argument "x" f32[T:4]) {
  %1 = all_reduce(%0) {group_size = 2, groups = [0, 1], kind = "max"} : f32[T:4]
  return "y" %1
}
)";

Step BreakStep(GraphMode mode) {
  Step step(kBreaks, Ranks(2));
  step.ints["live"] = {2, 0, 0};
  step.floats["x"] = {3, 4, 5, 6};
  step.outputs = {{"y", Floats(4, 77)}, {"sum", {0}}};
  step.mode = mode;
  return step;
}

TEST(RanksTest, BothModesRunBodiesAndOnlyTheLivePartCounts) {
  for (const GraphMode mode : {GraphMode::kFull, GraphMode::kBreakable}) {
    Step step = BreakStep(mode);
    ASSERT_TRUE(step.Start());
    for (int run = 0; run < 2; ++run) {
      ASSERT_TRUE(step.Run());
      EXPECT_EQ(step.outputs["y"], (Floats{4 * 3 + 4 * 4, 5 * 4 + 5 * 5, 77, 77}));
      EXPECT_EQ(step.outputs["sum"][0], 28 + 45);
    }
    step.ints["live"][0] = 3;
    ASSERT_TRUE(step.Run());
    EXPECT_EQ(step.outputs["y"][2], 6 * 5 + 6 * 6);
    EXPECT_EQ(step.outputs["sum"][0], 28 + 45 + 66);
  }
}

TEST(RanksTest, PaddingIsPoisonedOnEveryRank) {
  Step step(R"(module live(%0)
func @step(%0: metadata "live" i32[3], %1: metadata "x" f32[T:3]) {
  %2 = neg(%1) : f32[T:3]
  %3 = reshape(%2) : f32[3]
  %4 = all_gather(%3) {dim = 0, group_size = 2, groups = [0, 1]} : f32[6]
  return "y" %4
}
)",
            Ranks(2));
  step.ints["live"] = {2, 0, 0};
  step.floats["x"] = {1, 2, 3};
  step.outputs["y"] = Floats(6, 0);
  ASSERT_TRUE(step.Start());
  ASSERT_TRUE(step.Run());
  for (const size_t rank : {0, 1}) {
    EXPECT_EQ(step.outputs["y"][rank * 3 + 1], -2);
    EXPECT_TRUE(std::isnan(step.outputs["y"][rank * 3 + 2]));
  }
}

TEST(RanksTest, AStepWithoutCollectivesRunsOnEveryRank) {
  const std::string text = R"(module
func @step(%0: metadata "rank" i32[], %1: weight "w" f32[2], %2: state "s" f32[2]) {
  %3 = add(%2, %1) : f32[2]
  return "rank" %0, "s" %3
} alias 1 -> 2
)";
  for (const int64_t ranks : {1, 3}) {
    Step step(text, Ranks(ranks));
    step.weights["w"] = {1, 2};  // one for all
    step.states = {{"s", 8}};
    step.outputs["rank"] = {77};
    ASSERT_TRUE(step.Start());
    ASSERT_TRUE(step.Run());
    ASSERT_TRUE(step.Run());
    EXPECT_EQ(step.outputs["rank"][0], 0) << "the first rank's, whatever the bits of an i32";
    EXPECT_EQ(Floats(step.State("s"), step.State("s") + 2), (Floats{2, 4}));
    EXPECT_EQ(step.backend().weight_bytes(), 8);
  }
}

TEST(RanksTest, ScratchIsOfAllRanks) {
  std::map<int64_t, int64_t> bytes;
  for (const int64_t ranks : {1, 4}) {
    Step step("module\nfunc @step(%0: metadata \"x\" f32[2000]) {\n  %1 = neg(%0) : f32[2000]\n  return \"y\" %1\n}\n",
              Ranks(ranks));
    ASSERT_TRUE(step.Compile());
    bytes[ranks] = step.backend().arena_bytes();
    EXPECT_EQ(step.executable().scratch_bytes(), bytes[ranks]);
  }
  EXPECT_EQ(bytes[4], 4 * bytes[1]);
}

TEST(RanksTest, WhatDoesNotFitIsNamed) {
  for (const int64_t ranks : {1, 3, 0}) {
    Step step(kChain, Ranks(ranks));
    ExpectError(step.Compile(), ErrorCode::kInvalidArgument,
                fmt::format("the step is of 2 ranks, this backend runs {}", ranks));
  }
  Step weights(kLayers, Ranks(2));
  weights.shards = {{"w0", {{1, 1}, {1, 1}, {1, 1}}}, {"w1", {{1, 1}, {1, 1}}}};
  ExpectError(weights.Compile(), ErrorCode::kInvalidArgument, "weight 'w0': is of 3 ranks, this backend runs 2");

  Step states(kLayers, Ranks(2));
  states.shards = {{"w0", {{1, 1}, {1, 1}}}, {"w1", {{1, 1}, {1, 1}}}};
  states.floats["x"] = {1, 2};
  states.ints["i"] = {0};
  states.outputs = {{"y", {0, 0}}, {"first", {0, 0}}};
  ASSERT_TRUE(states.Compile());
  ExpectError(states.Capture(), ErrorCode::kNotFound, "buffer 'a' is not allocated");
  const auto foreign = backend::AllocateHostStates({{"a", 16}, {"b", 16}});
  backend::StepIo io = states.io();
  io.states = foreign->get();
  ExpectError(states.executable().Capture(io), ErrorCode::kInvalidArgument, "states: are not those of 2 ranks");
}

TEST(RanksTest, HostFunctionsOfBreaksAreRefused) {
  const backend::BreakFunction host = [](backend::BreakContext&) { return Status(); };
  Step step = BreakStep(GraphMode::kBreakable);
  step.breaks["host"] = host;
  ExpectError(step.Compile(), ErrorCode::kUnsupported, "break 'host': has a host function, which is for one rank");
  Step other = BreakStep(GraphMode::kBreakable);
  other.breaks["elsewhere"] = host;
  EXPECT_TRUE(other.Compile());
  Step full = BreakStep(GraphMode::kFull);  // runs the body
  full.breaks["host"] = host;
  EXPECT_TRUE(full.Compile());
}

}  // namespace
}  // namespace deepinfer::reference
