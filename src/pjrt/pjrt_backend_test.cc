#include "pjrt/pjrt_backend.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ir/builder.h"
#include "ir/text.h"
#include "pjrt/test_plugins.h"
#include "pjrt/test_session.h"

namespace deepinfer::pjrt {
namespace {

namespace fs = std::filesystem;

class PjrtBackendTest : public PluginTest {
 protected:
  std::unique_ptr<backend::Backend> Make(const std::string& cache_dir = "") {
    auto backend = CreatePjrtBackend({.plugin = file.path, .cache_dir = cache_dir});
    EXPECT_TRUE(backend.has_value()) << (backend ? "" : backend.error().ToString());
    return backend ? *std::move(backend) : nullptr;
  }
};

const char kCounter[] =
    "module\nfunc @step(%0: state \"s\" f32[2] in \"both\"+2, %1: metadata \"x\" f32[2], %2: state \"t\" f32[2] in "
    "\"both\"+0) {\n  %3 = add(%0, %1) : f32[2]\n  %4 = add(%3, %2) : f32[2]\n  return \"y\" %4, \"s\" %3\n"
    "} alias 1 -> 0\n";

ir::Module ParseOrDie(const std::string& text) {
  auto module = ir::Parse(text);
  EXPECT_TRUE(module.has_value()) << (module ? "" : module.error().ToString());
  return *std::move(module);
}

TEST_P(PjrtBackendTest, StatesLiveInSlotsThatEachStepReplaces) {
  TestSession session(Make());
  session.Add("step", ParseOrDie(kCounter));
  ASSERT_TRUE(session.Start());
  session.Set<float>("step", "x", {1, 10});
  for (const float times : {1.0f, 2.0f, 3.0f}) {
    const Status run = session.Run("step");
    ASSERT_TRUE(run.has_value()) << run.error().ToString();
    EXPECT_EQ(session.Get<float>("step", "y"), (std::vector<float>{times, 10 * times}));
  }
  EXPECT_NE(session.executable("step").Describe()[0].find(file.name), std::string::npos);
}

// Two 4-bit numbers a byte, the way a graph unpacks what no dtype holds, and packs it again.
ir::Module Nibbles() {
  ir::ModuleBuilder module;
  ir::Builder b = module.Entry();
  const ir::Value packed = b.Input("packed", ir::InputKind::kMetadata, ir::Type(DType::kU8, {4}));
  const ir::Value low = b.WithScalar(ir::Op::kAnd, packed, 15);
  const ir::Value high = b.WithScalar(ir::Op::kShiftRight, packed, 4);
  const std::vector<ir::Value> pair = {b.Reshape(low, {4, 1}), b.Reshape(high, {4, 1})};
  const ir::Value numbers = b.Reshape(b.Emit(ir::Op::kConcatenate, pair, {{"dim", int64_t{1}}}), {8});
  b.Output("values", b.WithScalar(ir::Op::kSub, b.Convert(numbers, DType::kF32), 8));
  b.Output("again", b.Emit(ir::Op::kOr, {low, b.WithScalar(ir::Op::kShiftLeft, high, 4)}));
  return *module.Finish();
}

TEST_P(PjrtBackendTest, FourBitNumbersAreUnpackedByBitOperations) {
  TestSession session(Make());
  session.Add("step", Nibbles());
  ASSERT_TRUE(session.Start());
  const std::vector<uint8_t> bytes = {0x80, 0x1f, 0xf7, 0xa5};
  session.Set<uint8_t>("step", "packed", bytes);
  ASSERT_TRUE(session.Run("step"));
  EXPECT_EQ(session.Get<float>("step", "values"), (std::vector<float>{-8, 0, 7, -7, -1, 7, -3, 2}));
  EXPECT_EQ(session.Get<uint8_t>("step", "again"), bytes);
}

void ExpectError(const Status& status, ErrorCode code, const std::string& text) {
  ASSERT_FALSE(status.has_value()) << text;
  EXPECT_EQ(status.error().code, code) << status.error().ToString();
  EXPECT_NE(status.error().ToString().find(text), std::string::npos) << status.error().ToString();
}

TEST_P(PjrtBackendTest, WhatIsMissingOrMovedIsNamed) {
  const auto backend = Make();
  const std::byte bytes[64] = {};
  ExpectError(backend->SetWeights({{"w", {"w", Encoding::kQ8_0, {1, 32}, bytes}}}, ""), ErrorCode::kUnsupported,
              "weight 'w': is q8_0");
  const auto compile = [&](const std::string& text) {
    const auto made = backend->Compile(ParseOrDie(text), {});
    return made ? Status() : Status(tl::unexpected(made.error()));
  };
  ExpectError(compile("module\nfunc @step(%0: weight \"w\" f32[2]) {\n  return \"y\" %0\n}\n"), ErrorCode::kNotFound,
              "weight 'w'");
  ExpectError(compile("module\nfunc @step(%0: metadata \"x\" f32[2]) {\n  %1 = rms_norm(%0, %0) {eps = 0.1} : f32[2]\n"
                      "  return \"y\" %1\n}\n"),
              ErrorCode::kUnsupported, "rms_norm");
  const Status refused = compile(
      "module\nfunc @step(%0: metadata \"x\" f32[2]) {\n  %1 = custom_call(%0) {target = \"nki\"} : f32[2]\n  return "
      "\"y\" "
      "%1\n}\n");
  ASSERT_FALSE(refused.has_value());
  for (const std::string& part : {file.name, std::string("(API 0."), std::string("nki")}) {
    EXPECT_NE(refused.error().ToString().find(part), std::string::npos) << refused.error().ToString();
  }
}

TEST_P(PjrtBackendTest, SlotsAreCheckedAtCaptureAndRun) {
  TestSession session(Make());
  session.Add("step", ParseOrDie(kCounter));
  ASSERT_TRUE(session.Start());
  backend::Executable& executable = session.executable("step");
  backend::StepIo io = session.Io("step");
  float elsewhere[2] = {};
  io.metadata[0].data = elsewhere;
  ExpectError(executable.Run(io), ErrorCode::kFailedPrecondition, "x: has moved");
  io.metadata[0].bytes = 4;
  ExpectError(executable.Capture(io), ErrorCode::kInvalidArgument, "metadata 'x'");
  ExpectError(executable.Run(session.Io("step")), ErrorCode::kFailedPrecondition, "Run before Capture");
  io = session.Io("step");
  io.states = nullptr;
  ExpectError(executable.Capture(io), ErrorCode::kInvalidArgument, "state 's'");
  io = session.Io("step");
  io.outputs.clear();
  ExpectError(executable.Capture(io), ErrorCode::kNotFound, "output 'y'");
  const auto states = session.backend().AllocateStates({{"both", 12}});
  io = session.Io("step");
  io.states = states->get();
  ExpectError(executable.Capture(io), ErrorCode::kInvalidArgument, "ends at byte 16");
}

TEST_P(PjrtBackendTest, ExecutablesComeFromTheCacheAndADamagedFileIsReplaced) {
  std::string dir = (fs::temp_directory_path() / "pjrt_cache_XXXXXX").string();
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  const auto files = [&] {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(dir)) {
      if (entry.path().extension() == ".blobs") found.push_back(entry.path());
    }
    return found;
  };
  std::vector<std::string> notes;
  const auto describe = [&] {
    TestSession session(Make(dir));
    session.Add("step", ParseOrDie(kCounter));
    const Status started = session.Start();
    EXPECT_TRUE(started.has_value()) << started.error().ToString();
    if (!started) return std::string();
    session.Set<float>("step", "x", {1, 10});
    EXPECT_TRUE(session.Run("step"));
    EXPECT_EQ(session.Get<float>("step", "y"), (std::vector<float>{1, 10}));
    notes = session.backend().notes();
    return session.executable("step").Describe()[0];
  };
  EXPECT_NE(describe().find("compiled in"), std::string::npos);
  ASSERT_EQ(files().size(), 1u);
  EXPECT_NE(describe().find("from the cache"), std::string::npos);
  const auto size = fs::file_size(files()[0]);
  std::fstream(files()[0], std::ios::in | std::ios::out | std::ios::binary).seekp(static_cast<int64_t>(size) - 9)
      << "damaged";
  const std::string damaged = describe();
  EXPECT_NE(damaged.find("compiled in"), std::string::npos) << damaged;
  EXPECT_EQ(notes.size(), 1u);  // says why
  EXPECT_NE(describe().find("from the cache"), std::string::npos);
  EXPECT_TRUE(notes.empty());
  fs::remove_all(dir);
}

INSTANTIATE_TEST_SUITE_P(Plugins, PjrtBackendTest, testing::Range(0, kMaxTestPlugins));

TEST(PjrtBackendErrorTest, AMissingPluginIsNamed) {
  const auto backend = CreatePjrtBackend({.plugin = "/no/such/plugin.so"});
  ASSERT_FALSE(backend.has_value());
  EXPECT_EQ(backend.error().code, ErrorCode::kNotFound);
  EXPECT_NE(backend.error().ToString().find("/no/such/plugin.so"), std::string::npos);
}

}  // namespace
}  // namespace deepinfer::pjrt
