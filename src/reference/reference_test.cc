#include "reference/reference.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <vector>

#include "ir/text.h"
#include "reference/test_util.h"

namespace {
std::atomic<int64_t> allocations{0};
}  // namespace

// Counts every allocation of this program, for the test that a step makes none. Out of line: GCC sees only one half of
// a pair that it inlines, and warns.
[[gnu::noinline]] void* operator new(size_t bytes) {
  allocations.fetch_add(1);
  if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
// std::stable_sort gets its buffer this way; left to a sanitizer, it would be freed by the delete below.
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1);
  return std::malloc(bytes);
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept {
  std::free(p);
}

namespace deepinfer::reference {
namespace {

using backend::GraphMode;

const char kStore[] =
    "module\n"
    "func @step(%0: state \"k\" f32[4,2] in \"kv\"+0, %1: state \"v\" f32[4,2] in \"kv\"+8, %2: metadata \"i\" i32[2], "
    "%3: metadata \"r\" f32[2,2]) {\n"
    "  index_put_(%0, %2, %3) {dims = [0]}\n"
    "  %4 = neg(%3) : f32[2,2]\n"
    "  index_put_(%1, %2, %4) {dims = [0]}\n"
    "  %5 = reduce(%0) {dims = [0, 1], kind = \"sum\"} : f32[]\n"
    "  return \"sum\" %5\n}\n";

TEST(ReferenceTest, StatesAreViewsOfBuffersWrittenInPlaceAndSeenByLaterReaders) {
  Step step(kStore);
  step.states = {{"kv", 64}};
  step.ints["i"] = {1, 9};
  step.floats["r"] = {1, 2, 3, 4};
  step.outputs["sum"] = {0};
  ASSERT_TRUE(step.Start());
  ASSERT_TRUE(step.Run());
  EXPECT_EQ(step.outputs["sum"][0], 3);
  step.ints["i"] = {3, 0};
  ASSERT_TRUE(step.Run());
  const std::vector<float> want = {3, 4, 1, 2, 0, 0, 1, 2, -3, -4, -1, -2, 0, 0, -1, -2};
  EXPECT_EQ(std::vector<float>(step.State("kv"), step.State("kv") + 16), want);
  EXPECT_EQ(step.outputs["sum"][0], 13);
}

// Two layers with a state each, through one outlined function that adds its input to row 0 of the state.
const char kLayers[] =
    "module\n"
    "func @step(%0: state \"a\" f32[2,2], %1: state \"b\" f32[2,2], %2: metadata \"x\" f32[1,2], %3: metadata \"i\" "
    "i32[1], "
    "%4: weight \"w0\" f32[2], %5: weight \"w1\" f32[2]) {\n"
    "  %6 = call(%2, %0, %3, %4) {callee = \"layer\"} : f32[1,2]\n"
    "  %7 = call(%6, %1, %3, %5) {callee = \"layer\"} : f32[1,2]\n"
    "  return \"y\" %7, \"first\" %6\n}\n"
    "func @layer(%0: argument \"x\" f32[1,2], %1: state \"s\" f32[2,2], %2: argument \"i\" i32[1], %3: argument \"w\" "
    "f32[2]) {\n"
    "  %4 = broadcast_in_dim(%3) {dims = [1]} : f32[1,2]\n"
    "  %5 = mul(%0, %4) : f32[1,2]\n"
    "  index_put_(%1, %2, %5) {dims = [0]}\n"
    "  %6 = take(%1, %2) : f32[1,2]\n"
    "  return \"y\" %6\n}\n";

TEST(ReferenceTest, CallsOfOneFunctionKeepTheirStatesAndResultsApart) {
  Step step(kLayers);
  step.states = {{"a", 16}, {"b", 16}};
  step.weights = {{"w0", {2, 3}}, {"w1", {10, 100}}};
  step.floats["x"] = {1, 2};
  step.ints["i"] = {1};
  step.outputs = {{"y", {0, 0}}, {"first", {0, 0}}};
  ASSERT_TRUE(step.Start());
  ASSERT_TRUE(step.Run());
  EXPECT_EQ(step.outputs["first"], (std::vector<float>{2, 6}));
  EXPECT_EQ(step.outputs["y"], (std::vector<float>{20, 600}));
  EXPECT_EQ(step.State("a")[3], 6);
  EXPECT_EQ(step.State("b")[3], 600);
  EXPECT_EQ(step.State("a")[1], 0);
  EXPECT_GT(step.executable().scratch_bytes(), 0);
  EXPECT_EQ(step.executable().Describe().size(), 6u);
  EXPECT_EQ(step.backend().weight_bytes(), 16);
}

TEST(ReferenceTest, ARunAllocatesNothing) {
  Step step(kLayers);
  step.states = {{"a", 16}, {"b", 16}};
  step.weights = {{"w0", {2, 3}}, {"w1", {10, 100}}};
  step.floats["x"] = {1, 2};
  step.ints["i"] = {1};
  step.outputs = {{"y", {0, 0}}, {"first", {0, 0}}};
  ASSERT_TRUE(step.Start());
  const backend::StepIo io = step.io();
  ASSERT_TRUE(step.executable().Run(io));
  const int64_t before = allocations.load();
  ASSERT_TRUE(step.executable().Run(io));
  EXPECT_EQ(allocations.load(), before);
}

TEST(ReferenceTest, ARunOfSeveralRanksAllocatesNothing) {
  Step step(
      "module\nfunc @step(%0: weight \"w\" f32[4], %1: metadata \"x\" f32[4]) {\n"
      "  %2 = mul(%0, %1) : f32[4]\n"
      "  %3 = all_reduce(%2) {group_size = 2, groups = [0, 1], kind = \"sum\"} : f32[4]\n  return \"y\" %3\n}\n",
      {.threads = 2, .poison_padding = true, .ranks = 2});
  step.shards["w"] = {{1, 2, 3, 4}, {10, 20, 30, 40}};
  step.floats["x"] = {1, 1, 1, 2};
  step.outputs["y"] = {0, 0, 0, 0};
  ASSERT_TRUE(step.Start());
  const backend::StepIo io = step.io();
  const int64_t before = allocations.load();
  ASSERT_TRUE(step.executable().Run(io));
  EXPECT_EQ(allocations.load(), before);
  EXPECT_EQ(step.outputs["y"], (std::vector<float>{11, 22, 33, 88}));
}

const char kCase[] =
    "module\n"
    "func @step(%0: metadata \"c\" i32[], %1: metadata \"x\" f32[2]) {\n"
    "  %2 = case(%0, %1) {branches = (\"keep\", \"twice\", \"negate\")} : f32[2]\n  return \"y\" %2\n}\n"
    "func @keep(%0: argument \"x\" f32[2]) {\n  return \"y\" %0\n}\n"
    "func @twice(%0: argument \"x\" f32[2]) {\n  %1 = add(%0, %0) : f32[2]\n  return \"y\" %1\n}\n"
    "func @negate(%0: argument \"x\" f32[2]) {\n  %1 = neg(%0) : f32[2]\n  return \"y\" %1\n}\n";

TEST(ReferenceTest, CaseChoosesByMetadataAndTheLastBranchTakesTheRest) {
  Step step(kCase);
  step.ints["c"] = {0};
  step.floats["x"] = {1, 2};
  step.outputs["y"] = {0, 0};
  ASSERT_TRUE(step.Start());
  for (const auto& [index, want] : std::map<int, float>{{0, 2}, {1, 4}, {2, -2}, {7, -2}, {-1, -2}}) {
    step.ints["c"][0] = index;
    ASSERT_TRUE(step.Run());
    EXPECT_EQ(step.outputs["y"][1], want) << index;
  }
}

const char kBreaks[] =
    "module live(%0)\n"
    "func @step(%0: metadata \"live\" i32[3], %1: metadata \"x\" f32[T:4]) {\n"
    "  %2 = exp(%1) : f32[T:4]\n"
    "  %3 = break(%2) {body = \"body\", name = \"host\"} : f32[T:4]\n"
    "  %4 = add(%3, %2) : f32[T:4]\n"
    "  %5 = break(%4) {body = \"body\", name = \"other\"} : f32[T:4]\n"
    "  return \"y\" %5\n}\n"
    "func @body(%0: argument \"x\" f32[T:4]) {\n  %1 = neg(%0) : f32[T:4]\n  return \"y\" %1\n}\n";

Step BreakStep() {
  Step step(kBreaks);
  step.ints["live"] = {2, 0, 0};
  step.floats["x"] = {0, 1, 2, 3};
  step.outputs["y"] = std::vector<float>(4, 77);
  return step;
}

TEST(ReferenceTest, FullModeInlinesBodiesAndEqualsBreakableMode) {
  std::vector<float> results[2];
  int calls = 0;
  for (const GraphMode mode : {GraphMode::kFull, GraphMode::kBreakable}) {
    Step step = BreakStep();
    step.mode = mode;
    step.breaks["host"] = [&](backend::BreakContext& c) -> Status {
      ++calls;
      EXPECT_EQ(c.live.count[0], 2);
      EXPECT_EQ(ir::ToString(*c.operands[0].type), "f32[T:4]");
      for (int i = 0; i < 2; ++i)
        static_cast<float*>(c.results[0].data)[i] = -static_cast<float*>(c.operands[0].data)[i];
      return {};
    };
    ASSERT_TRUE(step.Start());
    EXPECT_EQ(calls, mode == GraphMode::kFull ? 0 : 1);  // capture really runs each break, and full mode has none
    ASSERT_TRUE(step.Run());
    ASSERT_TRUE(step.Run());
    EXPECT_EQ(calls, mode == GraphMode::kFull ? 0 : 3);
    results[static_cast<int>(mode)] = step.outputs["y"];
  }
  EXPECT_EQ(std::memcmp(results[0].data(), results[1].data(), 2 * sizeof(float)), 0);
  EXPECT_EQ(results[0][0], 0);
  EXPECT_EQ(results[0][2], 77);  // past the live count nothing is written
}

TEST(ReferenceTest, AFailingBreakFailsCaptureAndLeavesNothing) {
  Step step = BreakStep();
  step.mode = GraphMode::kBreakable;
  bool fail = true;
  step.breaks["host"] = [&](backend::BreakContext&) -> Status {
    if (fail) return MakeError(ErrorCode::kInternal, "host", "no luck");
    return {};
  };
  ASSERT_TRUE(step.Compile());
  ExpectError(step.Capture(), ErrorCode::kInternal, "no luck");
  ExpectError(step.Run(), ErrorCode::kFailedPrecondition, "Run before Capture");
  fail = false;
  EXPECT_TRUE(step.Capture());
  EXPECT_TRUE(step.Run());
}

TEST(ReferenceTest, MovedInputsAreNamed) {
  Step step(kStore);
  step.states = {{"kv", 64}};
  step.ints["i"] = {1, 2};
  step.floats["r"] = {1, 2, 3, 4};
  step.outputs["sum"] = {0};
  ASSERT_TRUE(step.Start());
  const std::vector<float> old = std::move(step.floats["r"]);
  step.floats["r"] = {1, 2, 3, 4};
  ExpectError(step.Run(), ErrorCode::kFailedPrecondition, "r: has moved");
}

TEST(ReferenceTest, WhatIsMissingIsNamed) {
  {
    Step step(kLayers);
    step.weights = {{"w0", {2, 3}}};
    ExpectError(step.Compile(), ErrorCode::kNotFound, "weight 'w1'");
  }
  {
    Step step(kStore);
    step.states = {{"kv", 64}};
    step.ints["i"] = {1, 2};
    ExpectError(step.Start(), ErrorCode::kNotFound, "metadata 'r'");
    step.floats["r"] = {1, 2, 3};
    ExpectError(step.Capture(), ErrorCode::kInvalidArgument, "metadata 'r'");
    step.floats["r"] = {1, 2, 3, 4};
    ExpectError(step.Capture(), ErrorCode::kNotFound, "output 'sum'");
  }
  {
    Step step(kStore);
    step.ints["i"] = {1, 2};
    step.floats["r"] = {1, 2, 3, 4};
    ExpectError(step.Start(), ErrorCode::kNotFound, "buffer 'kv' is not allocated");
  }
}

TEST(ReferenceTest, CallsOutOfOrderAndForeignWeightsAreRefused) {
  const auto module =
      *ir::Parse("module\nfunc @step(%0: metadata \"x\" f32[2]) {\n  %1 = neg(%0) : f32[2]\n  return \"y\" %1\n}\n");
  const auto backend = CreateReferenceBackend({});
  const std::byte bytes[64] = {};
  ExpectError(backend->SetWeights({{"w", {"w", Encoding::kQ8_0, {1, 32}, bytes}}}, ""), ErrorCode::kUnsupported,
              "weight 'w': is q8_0");
  const auto executable = backend->Compile(module, {});
  ASSERT_TRUE(executable.has_value());
  ExpectError((*executable)->Capture({}), ErrorCode::kFailedPrecondition, "Capture before Finalize");
  ASSERT_TRUE(backend->Finalize());
  const auto large = *ir::Parse(
      "module\nfunc @step(%0: metadata \"x\" f32[2000]) {\n  %1 = neg(%0) : f32[2000]\n  return \"y\" %1\n}\n");
  const auto late = backend->Compile(large, {});
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code, ErrorCode::kFailedPrecondition);
}

TEST(ReferenceTest, WhatCannotRunIsRefusedByName) {
  const auto compile = [](const std::string& body) {
    const auto module = ir::Parse(
        "module\nfunc @step(%0: metadata \"x\" f32[2], %1: state \"s\" f32[2], %2: metadata \"i\" i32[2]) {\n" + body +
        "}\n");
    EXPECT_TRUE(module.has_value()) << (module ? "" : module.error().ToString());
    const auto backend = CreateReferenceBackend({});
    const auto executable = backend->Compile(*module, {});
    return executable ? Status() : Status(tl::unexpected(executable.error()));
  };
  ExpectError(compile(" %3 = custom_call(%0) {target = \"nki_kernel\"} : f32[2]\n return \"y\" %3\n"),
              ErrorCode::kUnsupported, "'nki_kernel'");
  ExpectError(compile(" %3 = rms_norm(%0, %0) {eps = 0.1} : f32[2]\n return \"y\" %3\n"), ErrorCode::kUnsupported,
              "rms_norm");
  ExpectError(compile(" index_put_(%1, %2, %0) {dims = [0]}\n return\n"), ErrorCode::kUnsupported, "index_put_");
}

TEST(ReferenceTest, ANewContentThatIsNotWrittenInPlaceReachesTheState) {
  Step step(
      "module\nfunc @step(%0: state \"s\" f32[4], %1: metadata \"x\" f32[2], %2: metadata \"at\" i32[]) {\n"
      "  %3 = dynamic_update_slice(%0, %1, %2) : f32[4]\n  return \"s\" %3\n} alias 0 -> 0\n");
  step.states = {{"s", 16}};
  step.floats["x"] = {5, 6};
  step.ints["at"] = {1};
  ASSERT_TRUE(step.Start());
  ASSERT_TRUE(step.Run());
  step.ints["at"] = {2};
  ASSERT_TRUE(step.Run());
  EXPECT_EQ(std::vector<float>(step.State("s"), step.State("s") + 4), (std::vector<float>{0, 5, 5, 6}));
}

TEST(ReferenceTest, PaddingIsPoisonedWhereAsked) {
  const std::string text =
      "module live(%0)\nfunc @step(%0: metadata \"live\" i32[3], %1: metadata \"x\" f32[T:3]) {\n"
      "  %2 = neg(%1) : f32[T:3]\n  %3 = reshape(%2) : f32[3]\n  %4 = neg(%3) : f32[3]\n  return \"y\" %4\n}\n";
  for (const bool poison : {false, true}) {
    Step step(text, {.threads = 1, .poison_padding = poison});
    step.ints["live"] = {2, 0, 0};
    step.floats["x"] = {1, 2, 3};
    step.outputs["y"] = {0, 0, 0};
    ASSERT_TRUE(step.Start());
    ASSERT_TRUE(step.Run());
    EXPECT_EQ(step.outputs["y"][1], 2);
    EXPECT_EQ(std::isnan(step.outputs["y"][2]), poison);
  }
}

}  // namespace
}  // namespace deepinfer::reference
