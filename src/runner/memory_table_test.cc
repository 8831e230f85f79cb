#include "runner/memory_table.h"

#include <gtest/gtest.h>

namespace deepinfer::runner {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

MemoryNeeds Needs() {
  return {.weights = 100 * kMiB, .states = 400 * kMiB, .buffers = 20 * kMiB, .per_token = kMiB, .context = 300};
}

TEST(MemoryTable, FitsExactly) {
  EXPECT_TRUE(CheckMemory(Needs(), {520 * kMiB, "memory of the machine"}));
}

TEST(MemoryTable, UnknownLimitAllows) {
  EXPECT_TRUE(CheckMemory(Needs(), {}));
}

TEST(MemoryTable, TableAndLargestContext) {
  const Status status = CheckMemory(Needs(), {250 * kMiB, "memory of the machine"});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(status.error().message,
            "weights 100 MiB + KV cache and states 400 MiB + step buffers 20 MiB = 520 MiB, but the memory of the "
            "machine is 250 MiB; 130 tokens of KV cache fit: --kv-cache-memory 130M with --max-model-len 130");
}

TEST(MemoryTable, SmallerCacheForTheSameContext) {
  const Status status = CheckMemory(Needs(), {450 * kMiB, "memory limit of the cgroup"});
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("330 tokens of KV cache fit: --kv-cache-memory 330M"), std::string::npos);
  EXPECT_EQ(status.error().message.find("--max-model-len"), std::string::npos);
}

TEST(MemoryTable, WeightsAloneAreTooMuch) {
  const Status status = CheckMemory(Needs(), {120 * kMiB, "memory of the machine"});
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("leave no room"), std::string::npos);
}

}  // namespace
}  // namespace deepinfer::runner
