#include "cpu/executable.h"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>

#include "cpu/test_util.h"

namespace {
std::atomic<int64_t> allocations{0};

}  // namespace

#ifndef DI_SANITIZED  // the sanitizers have operators of their own
namespace {
void* Counted(size_t bytes, size_t alignment) {
  allocations.fetch_add(1);
  void* p = alignment == 0 ? std::malloc(bytes)
                           : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
}  // namespace

// Counts every allocation of this program, for the test that a step makes none.
void* operator new(size_t bytes) {
  return Counted(bytes, 0);
}
// std::stable_sort gets its buffer this way; left to a sanitizer, it would be freed by the delete below.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1);
  return std::malloc(bytes);
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return Counted(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, size_t) noexcept {
  std::free(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete(void* p, size_t, std::align_val_t) noexcept {
  std::free(p);
}
#endif

namespace deepinfer::cpu {
namespace {

using backend::GraphMode;

// Two breaks whose bodies write a state, between elementwise work.
const char kBreaks[] = R"(module live(%0)
func @step(%0: metadata "live" i32[3], %1: metadata "x" f32[T:4], %2: state "s" f32[6], %3: metadata "i" i32[T:4]) {
  %4 = add(%1, %1) : f32[T:4]
  %5 = break(%4, %2, %3) {body = "body", name = "first"} : f32[T:4]
  %6 = mul(%5, %1) : f32[T:4]
  %7 = break(%6, %2, %3) {body = "body", name = "second"} : f32[T:4]
  %8 = sub(%7, %1) : f32[T:4]
  return "y" %8
}
func @body(%0: argument "x" f32[T:4], %1: state "s" f32[6], %2: argument "i" i32[T:4]) {
  %3 = exp(%0) : f32[T:4]
  index_put_(%1, %2, %3) {dims = [0]}
  %4 = take(%1, %2) : f32[T:4]
  return "y" %4
}
)";

void FillBreaks(Step* step, GraphMode mode) {
  step->mode = mode;
  step->states = {{"s", 24}};
  step->ints = {{"live", {3, 0, 0}}, {"i", {5, 0, 3, 99}}};
  step->floats["x"] = {0.5f, -1, 0.25f, NAN};
  step->outputs["y"] = {7, 7, 7, 7};
}

TEST(CpuExecutableTest, FullAndBreakableGraphsGiveTheSameBits) {
  std::vector<float> outputs[2], states[2];
  for (const GraphMode mode : {GraphMode::kFull, GraphMode::kBreakable}) {
    Step step(kBreaks);
    FillBreaks(&step, mode);
    ASSERT_TRUE(step.Start());
    const auto& list = step.Executable().segments();
    EXPECT_EQ(list.breaks(), mode == GraphMode::kFull ? 0 : 2);
    EXPECT_EQ(list.graphs(), mode == GraphMode::kFull ? 1 : 3);
    std::memset(step.state_set->Address("s"), 0, 24);  // capture ran the breaks
    ASSERT_TRUE(step.Run());
    outputs[static_cast<int>(mode)] = step.outputs["y"];
    states[static_cast<int>(mode)] = step.State("s", 6);
  }
  EXPECT_EQ(std::memcmp(outputs[0].data(), outputs[1].data(), 16), 0);
  EXPECT_EQ(states[0], states[1]);
  EXPECT_FLOAT_EQ(states[0][5], std::exp(0.5f * std::exp(1.0f)));
  EXPECT_EQ(outputs[0][3], 7);  // past the live count nothing is written
}

TEST(CpuExecutableTest, HostFunctionsStandInForBodiesWithLiveCountsAndFixedAddresses) {
  Step step(kBreaks);
  FillBreaks(&step, GraphMode::kBreakable);
  std::vector<std::vector<void*>> seen;
  step.breaks["second"] = [&](backend::BreakContext& context) -> Status {
    EXPECT_EQ(context.operands.size(), 3u);
    EXPECT_EQ(context.results.size(), 2u);
    EXPECT_EQ(context.live.count[0], step.ints["live"][0]);
    EXPECT_EQ(ToString(*context.operands[0].type), "f32[T:4]");
    EXPECT_EQ(context.results[1].data, context.operands[1].data) << "the state is written in place";
    seen.push_back(
        {context.operands[0].data, context.operands[1].data, context.operands[2].data, context.results[0].data});
    for (int64_t i = 0; i < context.live.count[0]; ++i) {
      static_cast<float*>(context.results[0].data)[i] = 10 * static_cast<float*>(context.operands[0].data)[i];
    }
    static_cast<float*>(context.results[1].data)[1] = 42;
    return {};
  };
  ASSERT_TRUE(step.Start());
  EXPECT_EQ(seen.size(), 1u) << "capture really runs each break once";
  EXPECT_EQ(step.Executable().Describe().size(), 3u + 3u + 2u);
  ASSERT_TRUE(step.Run());
  for (int i = 0; i < 3; ++i) {
    const float x = step.floats["x"][i];
    EXPECT_FLOAT_EQ(step.outputs["y"][i], 10 * (std::exp(2 * x) * x) - x);
  }
  EXPECT_EQ(step.State("s", 6)[1], 42);
  step.ints["live"][0] = 1;
  ASSERT_TRUE(step.Run());
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_EQ(seen[0], seen[2]);
}

// Writes a buffer when it is awaited, and notes what another one held by then.
struct LateBuffer : backend::LateInputs {
  void Await() override {
    ++awaited;
    seen = *early;
    *late = value;
  }
  const float* early = nullptr;
  float* late = nullptr;
  float value = 0;
  float seen = 0;
  int awaited = 0;
};

TEST(CpuExecutableTest, WhatNeedsNoLateInputRunsBeforeIt) {
  Step step(R"(module live(%0)
func @step(%0: metadata "live" i32[3], %1: metadata "x" f32[T:1], %2: metadata "mask" f32[T:1]) {
  %3 = exp(%1) : f32[T:1]
  %4 = reshape(%2) : f32[T:1]
  %5 = add(%3, %4) : f32[T:1]
  return "early" %3, "sum" %5
}
)");
  step.ints["live"] = {1, 0, 0};
  step.floats = {{"x", {0.5f}}, {"mask", {100}}};
  step.outputs = {{"early", {0}}, {"sum", {0}}};
  ASSERT_TRUE(step.Compile());
  ASSERT_TRUE(step.backend.Finalize());
  backend::StepIo io = step.Io();
  io.late_inputs = {"mask"};
  ASSERT_TRUE(step.executable->Capture(io));
  ASSERT_TRUE(step.executable->Run(io));
  EXPECT_FLOAT_EQ(step.outputs["sum"][0], std::exp(0.5f) + 100) << "nothing comes late";
  LateBuffer buffer;
  buffer.early = step.outputs["early"].data();
  buffer.late = step.floats["mask"].data();
  io.late = &buffer;
  for (int run = 1; run <= 3; ++run) {
    buffer.value = static_cast<float>(run);
    step.outputs["early"][0] = -1;
    ASSERT_TRUE(step.executable->Run(io));
    EXPECT_EQ(buffer.awaited, run);
    EXPECT_FLOAT_EQ(buffer.seen, std::exp(0.5f)) << "the part before it has run";
    EXPECT_FLOAT_EQ(step.outputs["sum"][0], std::exp(0.5f) + buffer.value);
  }
  io.late_inputs = {"x"};
  ASSERT_TRUE(step.executable->Capture(io));
  step.outputs["early"][0] = -1;
  ASSERT_TRUE(step.executable->Run(io));
  EXPECT_EQ(buffer.awaited, 4);
  EXPECT_EQ(buffer.seen, -1) << "the first launch reads it";
}

// In a break and before a host function alike.
TEST(CpuExecutableTest, BreaksAwaitTheirLateInputs) {
  for (const bool host : {false, true}) {
    Step step(kBreaks);
    FillBreaks(&step, GraphMode::kBreakable);
    if (host) {
      step.breaks["first"] = [](backend::BreakContext& context) -> Status {
        const int32_t place = static_cast<const int32_t*>(context.operands[2].data)[0];
        static_cast<float*>(context.results[0].data)[0] = static_cast<float>(place);
        return {};
      };
    }
    ASSERT_TRUE(step.Compile());
    ASSERT_TRUE(step.backend.Finalize());
    backend::StepIo io = step.Io();
    io.late_inputs = {"i"};
    ASSERT_TRUE(step.executable->Capture(io));
    struct : backend::LateInputs {
      void Await() override { *place = 2; }
      int32_t* place = nullptr;
    } late;
    late.place = step.ints["i"].data();
    io.late = &late;
    std::memset(step.state_set->Address("s"), 0, 24);
    ASSERT_TRUE(step.executable->Run(io));
    EXPECT_EQ(step.State("s", 6)[5], 0) << "nothing was put where the input pointed before";
    EXPECT_NE(step.State("s", 6)[2], 0);
    if (host) {
      EXPECT_FLOAT_EQ(step.State("s", 6)[2], std::exp(2 * 0.5f));
    }
  }
}

TEST(CpuExecutableTest, AFailingHostFunctionFailsThatRunAndNoOther) {
  Step step(kBreaks);
  FillBreaks(&step, GraphMode::kBreakable);
  int fail = 1;
  step.breaks["first"] = [&](backend::BreakContext& context) -> Status {
    if (fail == 1) return MakeError(ErrorCode::kInternal, "first", "no luck");
    if (fail == 2) throw std::runtime_error("thrown");
    std::memcpy(context.results[0].data, context.operands[0].data, 12);
    return {};
  };
  ASSERT_TRUE(step.Compile());
  step.breaks.clear();  // the executable has its own
  ASSERT_TRUE(step.backend.Finalize());
  ExpectError(step.Capture(), ErrorCode::kInternal, "no luck");
  ExpectError(step.Run(), ErrorCode::kFailedPrecondition, "Run before Capture");
  fail = 0;
  ASSERT_TRUE(step.Capture());
  ASSERT_TRUE(step.Run());
  const std::vector<float> good = step.outputs["y"];
  fail = 2;
  ExpectError(step.Run(), ErrorCode::kInternal, "thrown");
  fail = 0;
  ASSERT_TRUE(step.Run());
  EXPECT_EQ(step.outputs["y"], good);
}

TEST(CpuExecutableTest, StatesKeepTheirAddressesAndTakeTheirNewContent) {
  Step step(R"(module
func @step(%0: state "k" f32[4,2] in "kv"+0, %1: state "v" f32[4,2] in "kv"+8, %2: metadata "i" i32[2], %3: metadata "r" f32[2,2]) {
  %4 = take(%0, %2) : f32[2,2]
  index_put_(%0, %2, %3) {dims = [0]}
  %5 = neg(%3) : f32[2,2]
  index_put_(%1, %2, %5) {dims = [0]}
  %6 = take(%0, %2) : f32[2,2]
  return "before" %4, "after" %6
}
)");
  step.states = {{"kv", 64}};
  step.ints["i"] = {1, 9};
  step.floats["r"] = {1, 2, 3, 4};
  step.outputs = {{"before", {7, 7, 7, 7}}, {"after", {7, 7, 7, 7}}};
  ASSERT_TRUE(step.Start());
  const void* address = step.state_set->Address("kv");
  ASSERT_TRUE(step.Run());
  EXPECT_EQ(step.outputs["before"], (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(step.outputs["after"], (std::vector<float>{1, 2, 0, 0}));
  step.ints["i"] = {3, 0};
  ASSERT_TRUE(step.Run());
  EXPECT_EQ(step.State("kv", 16), (std::vector<float>{3, 4, 1, 2, 0, 0, 1, 2, -3, -4, -1, -2, 0, 0, -1, -2}));
  EXPECT_EQ(step.state_set->Address("kv"), address);
}

TEST(CpuExecutableTest, CaseTakesTheBranchAndTheLastOneTheRest) {
  Step step(R"(module
func @step(%0: metadata "c" i32[], %1: metadata "x" f32[2], %2: state "s" f32[3], %3: metadata "i" i32[2]) {
  %4 = case(%0, %1, %2, %3) {branches = ("keep", "twice", "negate")} : f32[2]
  %5 = take(%2, %3) : f32[2]
  return "y" %4, "stored" %5
}
func @keep(%0: argument "x" f32[2], %1: state "s" f32[3], %2: argument "i" i32[2]) {
  index_put_(%1, %2, %0) {dims = [0]}
  return "y" %0
}
func @twice(%0: argument "x" f32[2], %1: state "s" f32[3], %2: argument "i" i32[2]) {
  %3 = add(%0, %0) : f32[2]
  index_put_(%1, %2, %3) {dims = [0]}
  return "y" %3
}
func @negate(%0: argument "x" f32[2], %1: state "s" f32[3], %2: argument "i" i32[2]) {
  %3 = neg(%0) : f32[2]
  index_put_(%1, %2, %3) {dims = [0]}
  return "y" %3
}
)");
  step.ints = {{"c", {0}}, {"i", {2, 0}}};
  step.floats["x"] = {1, 2};
  step.states = {{"s", 12}};
  step.outputs = {{"y", {0, 0}}, {"stored", {0, 0}}};
  ASSERT_TRUE(step.Start());
  for (const auto& [index, want] : std::map<int, float>{{0, 2}, {1, 4}, {2, -2}, {7, -2}, {-1, -2}}) {
    step.ints["c"][0] = index;
    ASSERT_TRUE(step.Run());
    EXPECT_EQ(step.outputs["y"][1], want) << index;
    EXPECT_EQ(step.outputs["stored"][1], want) << index;
    EXPECT_EQ(step.State("s", 3)[0], want) << index;
  }
}

TEST(CpuExecutableTest, OutputsThatAreInputsConstantsStatesOrEachOtherAreCopies) {
  Step step(R"(module
func @step(%0: metadata "x" f32[2], %1: weight "w" f32[2], %2: state "s" f32[2], %3: metadata "i" i32[1], %4: metadata "r" f32[1]) {
  %5 = constant() {value = 0x0000e040} : f32[2]
  %6 = neg(%0) : f32[2]
  %7 = reshape(%6) : f32[1,2]
  %8 = index_put(%2, %3, %4) {dims = [0]} : f32[2]
  return "x" %0, "w" %1, "c" %5, "c2" %5, "n" %6, "n2" %6, "n3" %7, "content" %8, "s" %8
} alias 8 -> 2
)");
  step.floats = {{"x", {1, 2}}, {"r", {9}}};
  step.ints["i"] = {1};
  step.weights["w"] = {3, 4};
  step.states = {{"s", 8}};
  for (const char* name : {"x", "w", "c", "c2", "n", "n2", "n3", "content"}) step.outputs[name] = {0, 0};
  ASSERT_TRUE(step.Start());
  ASSERT_TRUE(step.Run());
  const std::map<std::string, std::vector<float>> want = {{"x", {1, 2}},    {"w", {3, 4}},      {"c", {7, 7}},
                                                          {"c2", {7, 7}},   {"n", {-1, -2}},    {"n2", {-1, -2}},
                                                          {"n3", {-1, -2}}, {"content", {0, 9}}};
  EXPECT_EQ(step.outputs, want);
}

// What lies in memory of its own in the graph's eyes must not change under its readers.
TEST(CpuExecutableTest, ViewsOfStatesAndPutsIntoValuesDoNotShareWithWhatIsWritten) {
  Step step(R"(module
func @step(%0: state "s" f32[4], %1: metadata "i" i32[2], %2: metadata "r" f32[2]) {
  %3 = reshape(%0) : f32[2,2]
  %4 = index_put(%0, %1, %2) {dims = [0]} : f32[4]
  %5 = neg(%3) : f32[2,2]
  %6 = constant() {value = 0x0000803f} : f32[4]
  %7 = index_put(%6, %1, %2) {dims = [0]} : f32[4]
  %8 = reshape(%7) : f32[2,2]
  %9 = index_put(%8, %1, %3) {dims = [0]} : f32[2,2]
  return "old" %5, "put" %7, "put2" %9, "s" %4
} alias 3 -> 0
)");
  step.states = {{"s", 16}};
  step.ints["i"] = {1, 2};
  step.floats["r"] = {5, 6};
  step.outputs = {{"old", {9, 9, 9, 9}}, {"put", {9, 9, 9, 9}}, {"put2", {9, 9, 9, 9}}};
  ASSERT_TRUE(step.Start());
  ASSERT_TRUE(step.Run());
  EXPECT_EQ(step.outputs["old"], (std::vector<float>{-0.0f, -0.0f, -0.0f, -0.0f}));
  EXPECT_EQ(step.outputs["put"], (std::vector<float>{1, 5, 6, 1}));
  EXPECT_EQ(step.outputs["put2"], (std::vector<float>{1, 5, 0, 0}));
  step.ints["i"] = {0, 3};
  ASSERT_TRUE(step.Run());
  EXPECT_EQ(step.outputs["old"], (std::vector<float>{-0.0f, -5, -6, -0.0f}));
  EXPECT_EQ(step.outputs["put"], (std::vector<float>{5, 1, 1, 6})) << "the constant was overwritten";
}

TEST(CpuExecutableTest, ANewContentThatIsNotWrittenInPlaceReachesTheState) {
  Step step(R"(module
func @step(%0: state "s" f32[4], %1: metadata "x" f32[2], %2: metadata "at" i32[], %3: metadata "c" i32[], %4: state "t" f32[4]) {
  %5 = dynamic_update_slice(%0, %1, %2) : f32[4]
  %6 = case(%3, %4, %1) {branches = ("front", "double")} : f32[4]
  return "old" %0, "s" %5, "t" %6
} alias 1 -> 0, 2 -> 4
func @front(%0: state "t" f32[4], %1: argument "x" f32[2]) {
  %2 = constant() {value = 0x00000000} : i32[]
  %3 = dynamic_update_slice(%0, %1, %2) : f32[4]
  return "t" %3
} alias 0 -> 0
func @double(%0: state "t" f32[4], %1: argument "x" f32[2]) {
  %2 = add(%0, %0) : f32[4]
  return "t" %2
} alias 0 -> 0
)");
  step.states = {{"s", 16}, {"t", 16}};
  step.floats["x"] = {5, 6};
  step.ints = {{"at", {1}}, {"c", {0}}};
  step.outputs["old"] = {9, 9, 9, 9};
  ASSERT_TRUE(step.Start());
  ASSERT_TRUE(step.Run());
  EXPECT_EQ(step.outputs["old"], (std::vector<float>{0, 0, 0, 0}));
  step.ints = {{"at", {2}}, {"c", {1}}};
  ASSERT_TRUE(step.Capture());
  ASSERT_TRUE(step.Run());
  EXPECT_EQ(step.outputs["old"], (std::vector<float>{0, 5, 6, 0}));
  EXPECT_EQ(step.State("s", 4), (std::vector<float>{0, 5, 5, 6}));
  EXPECT_EQ(step.State("t", 4), (std::vector<float>{10, 12, 0, 0}));
}

const char kSmall[] = R"(module live(%0)
func @step(%0: metadata "live" i32[3], %1: metadata "x" f32[T:4,8], %2: weight "g" f32[8]) {
  %3 = exp(%1) : f32[T:4,8]
  %4 = rms_norm(%3, %2) {eps = 1e-06} : f32[T:4,8]
  return "y" %4
}
)";

void FillSmall(Step* step) {
  step->ints["live"] = {4, 0, 0};
  step->floats["x"] = std::vector<float>(32, 1.5f);
  step->weights["g"] = std::vector<float>(8, 2);
  step->outputs["y"] = std::vector<float>(32, 0);
}

TEST(CpuExecutableTest, CallsOutOfOrderAreRefused) {
  Step step(kSmall);
  FillSmall(&step);
  ASSERT_TRUE(step.Compile());
  ExpectError(step.Capture(), ErrorCode::kFailedPrecondition, "Capture before Finalize");
  ASSERT_TRUE(step.backend.Finalize());
  ExpectError(step.Run(), ErrorCode::kFailedPrecondition, "Run before Capture");
  ASSERT_TRUE(step.Capture());
  ASSERT_TRUE(step.Run());
  EXPECT_TRUE(step.backend.Compile(step.module, {}).has_value()) << "no larger than what there is";
  const auto larger = *ir::Parse(R"(module
func @step(%0: metadata "x" f32[4096]) {
  %1 = exp(%0) : f32[4096]
  %2 = neg(%1) : f32[4096]
  return "y" %2
}
)");
  const auto late = step.backend.Compile(larger, {});
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code, ErrorCode::kFailedPrecondition);
}

TEST(CpuExecutableTest, LiveCountsAreCheckedAgainstTheBucketWhereItHasSuchADimension) {
  Step step(kSmall);
  FillSmall(&step);
  ASSERT_TRUE(step.Start());
  step.ints["live"] = {5, 0, 0};
  ExpectError(step.Run(), ErrorCode::kInvalidArgument, "live_counts: 5 of at most 4 tokens");
  step.ints["live"] = {-1, 0, 0};
  ExpectError(step.Run(), ErrorCode::kInvalidArgument, "live_counts: -1 of at most 4 tokens");
  step.ints["live"] = {0, 3, 7};  // no rows or requests in this graph
  EXPECT_TRUE(step.Run());
  EXPECT_EQ(step.outputs["y"][0], 0);
}

TEST(CpuExecutableTest, WhatIsMissingMovedOrMisshapenIsNamed) {
  Step step(kSmall);
  FillSmall(&step);
  step.outputs.clear();
  ASSERT_TRUE(step.Compile());
  ASSERT_TRUE(step.backend.Finalize());
  ExpectError(step.Capture(), ErrorCode::kNotFound, "output 'y': has no buffer");
  step.outputs["y"] = std::vector<float>(31, 0);
  ExpectError(step.Capture(), ErrorCode::kInvalidArgument, "output 'y': has 124 bytes");
  step.outputs["y"].resize(32);
  ASSERT_TRUE(step.Capture());
  const std::vector<float> old = std::move(step.floats["x"]);
  step.floats["x"] = old;
  ExpectError(step.Run(), ErrorCode::kFailedPrecondition, "x: has moved");

  Step none(kSmall);
  FillSmall(&none);
  none.weights.clear();
  ExpectError(none.Compile(), ErrorCode::kNotFound, "g");
  Step wrong(kSmall);
  FillSmall(&wrong);
  const auto module = wrong.module;
  const std::vector<float> short_weight(4, 1);
  ASSERT_TRUE(wrong.backend.SetWeights(
      {{"g", {"g", Encoding::kF32, {4}, reinterpret_cast<const std::byte*>(short_weight.data())}}}, ""));
  const auto compiled = wrong.backend.Compile(module, {});
  ASSERT_FALSE(compiled.has_value());
  EXPECT_EQ(compiled.error().ToString(), "g: is f32[4] where the graph wants f32[8]");
}

TEST(CpuExecutableTest, AProjectionWhoseWeightIsNoWeightOfTheStepIsAnError) {
  Step step(R"(module
func @step(%0: metadata "x" f32[2,8], %1: metadata "w" f32[4,8]) {
  %2 = break(%0, %1) {body = "body", name = "b"} : f32[2,4]
  return "y" %2
}
func @body(%0: argument "x" f32[2,8], %1: weight "w" f32[4,8]) {
  %2 = linear(%0, %1) : f32[2,4]
  return "y" %2
}
)");
  ExpectError(step.Compile(), ErrorCode::kUnsupported, "linear: f32[4,8] is not a weight of the step");
}

TEST(CpuExecutableTest, AStepOfSeveralRanksIsRefused) {
  Step step(R"(module
func @step(%0: metadata "rank" i32[], %1: metadata "x" f32[4]) {
  %2 = all_gather(%1) {dim = 0, group_size = 2, groups = [0, 2, 1, 3]} : f32[8]
  return "y" %2
}
)");
  EXPECT_EQ(step.backend.caps().ranks, 1);
  ExpectError(step.Compile(), ErrorCode::kUnsupported, "all_gather: is over 4 ranks, and this is one rank alone");
}

TEST(CpuExecutableTest, AnOpOnFloatsWithoutAKernelIsAWarningOrWithStrictKernelsAnError) {
  Step warned(kBreaks);
  ASSERT_TRUE(warned.Compile());
  const std::vector<std::string> warnings = warned.backend.warnings();
  ASSERT_EQ(warnings.size(), 2u);  // each once, though two breaks have it
  EXPECT_NE(warnings[0].find("takes exp f32[T:4]:"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[1].find("takes index_put f32[6], i32[T:4], f32[T:4]:"), std::string::npos) << warnings[1];

  Step strict(kBreaks, {.isa = MachineIsas().back(), .strict_kernels = true});
  ExpectError(strict.Compile(), ErrorCode::kUnsupported, "--strict-kernels: no kernel of cpu");
}

TeamPlacement Pinned(int threads) {
  return PlanTeam({.threads = threads, .pinning = Pinning::kAlways}).placement;
}

// Pinned threads and memory that is asked for on a node (of one, here) change nothing but where things lie; and a
// placement for a team that there is not is as good as none.
TEST(CpuExecutableTest, APlacedTeamGivesTheSameBits) {
  TeamPlacement nodes = Pinned(2);
  const std::vector<int> memory = ReadMachine("", AffinityCpus()).memory_nodes;
  if (!memory.empty()) {
    nodes.nodes = {{memory.front(), AffinityCpus()}};
    nodes.node_of = {memory.front(), memory.front()};
  }
  std::vector<std::vector<float>> results;
  for (const TeamPlacement& placement : {TeamPlacement(), Pinned(2), nodes, Pinned(5)}) {
    Step step(kBreaks, {.threads = 2, .isa = MachineIsas().back(), .placement = placement});
    FillBreaks(&step, GraphMode::kFull);
    ASSERT_TRUE(step.Start());
    ASSERT_TRUE(step.Run());
    results.push_back(step.outputs["y"]);
    results.back().resize(3);  // live
    EXPECT_EQ(results.back(), results.front());
  }
}

TEST(CpuExecutableTest, ARunAllocatesNothing) {
#ifdef DI_SANITIZED
  GTEST_SKIP() << "allocations are not counted under a sanitizer";
#endif
  for (const GraphMode mode : {GraphMode::kFull, GraphMode::kBreakable}) {
    Step step(kBreaks, {.threads = 3, .isa = MachineIsas().back(), .placement = Pinned(3)});
    FillBreaks(&step, mode);
    ASSERT_TRUE(step.Start());
    const backend::StepIo io = step.Io();
    ASSERT_TRUE(step.executable->Run(io));
    const int64_t before = allocations.load();
    ASSERT_TRUE(step.executable->Run(io));
    EXPECT_EQ(allocations.load(), before);
  }
  Step step(kSmall);
  FillSmall(&step);
  ASSERT_TRUE(step.Start());
  const backend::StepIo io = step.Io();
  const int64_t before = allocations.load();
  ASSERT_TRUE(step.executable->Run(io));
  EXPECT_EQ(allocations.load(), before);
}

}  // namespace
}  // namespace deepinfer::cpu
