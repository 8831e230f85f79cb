#include "backend/step_io.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "backend/host_states.h"

namespace deepinfer::backend {
namespace {

TEST(StepIoTest, SlotsAreFoundByKindAndNameAndMustBeLongEnough) {
  float x[4] = {}, y[2] = {};
  StepIo io;
  io.metadata = {{"x", x, sizeof(x)}, {"gone", nullptr, 64}};
  io.outputs = {{"x", y, sizeof(y)}};
  const ir::Type two(DType::kF32, {2}), four(DType::kF32, {4});
  EXPECT_EQ(*MetadataAddress(io, "x", four), x);
  EXPECT_EQ(*OutputAddress(io, "x", two), y);
  const auto code = [](const Result<void*>& result) { return result ? ErrorCode::kInternal : result.error().code; };
  EXPECT_EQ(code(OutputAddress(io, "x", four)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(OutputAddress(io, "x", four).error().where, "output 'x'");
  EXPECT_EQ(code(MetadataAddress(io, "gone", two)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(MetadataAddress(io, "z", two)), ErrorCode::kNotFound);
}

TEST(StepIoTest, AStateIsAtItsOffsetInItsBuffer) {
  HostStates states;
  ASSERT_TRUE(states.Add("kv", 64));
  StepIo io;
  ir::Input input;
  input.name = "kv.0.k";
  input.buffer = std::string("kv");
  input.offset = 6;
  const ir::Type type(DType::kF32, {2});
  EXPECT_FALSE(StateAddress(io, input, type)) << "no states at all";
  io.states = &states;
  EXPECT_EQ(*StateAddress(io, input, type), static_cast<std::byte*>(states.Address("kv")) + 24);
  input.buffer.clear();
  const auto missing = StateAddress(io, input, type);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().ToString().find("buffer 'kv.0.k' is not allocated"), std::string::npos);
}

// Pages come to be without a touch, and what was written stays.
TEST(HostStatesTest, PopulateGetsEveryPage) {
  constexpr int64_t kBytes = (int64_t{5} << 20) + 100;
  HostStates states;
  ASSERT_TRUE(states.Add("kv", kBytes));
  const int32_t written = 42;
  ASSERT_TRUE(states.Write("kv", 4096 * 3, &written, sizeof written));
  states.Populate();
  std::vector<unsigned char> resident((kBytes + PageSize() - 1) / PageSize());
  ASSERT_EQ(::mincore(states.Address("kv"), kBytes, resident.data()), 0);
  for (size_t page = 0; page < resident.size(); ++page) ASSERT_TRUE(resident[page] & 1) << page;
  int32_t read = 0;
  ASSERT_TRUE(states.Read("kv", 4096 * 3, &read, sizeof read));
  EXPECT_EQ(read, written);
}

TEST(HostStatesTest, MemoryIsZeroedAndSizesThatCannotBeAreRefused) {
  HostStates states;
  ASSERT_TRUE(states.Add("empty", 0));
  EXPECT_NE(states.Address("empty"), nullptr);
  constexpr int64_t kBytes = (int64_t{4} << 20) + 1;
  ASSERT_TRUE(states.Add("large", kBytes));
  auto* large = static_cast<uint8_t*>(states.Address("large"));
  EXPECT_EQ(std::count(large, large + kBytes, 0), kBytes);
  large[kBytes - 1] = 1;
  for (const int64_t bytes : {int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    const Status added = states.Add("wrong", bytes);
    ASSERT_FALSE(added);
    EXPECT_EQ(added.error().code, ErrorCode::kResourceExhausted);
  }
  EXPECT_EQ(states.Address("wrong"), nullptr);
  EXPECT_FALSE(states.Add("large", 1)) << "its address would change";
  EXPECT_EQ(states.Address("large"), large);
}

}  // namespace
}  // namespace deepinfer::backend
