#include "base/memory_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace deepinfer {
namespace {

namespace fs = std::filesystem;

class MemoryLimitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / ("memory_limit_" + std::to_string(::getpid()));
    Write("proc/meminfo", "MemTotal:       1000 kB\nMemFree:         1 kB\n");
  }
  void TearDown() override { fs::remove_all(root_); }
  void Write(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  MemoryLimit Find() const { return FindMemoryLimit(root_.string()); }

  fs::path root_;
};

TEST_F(MemoryLimitTest, MachineWithoutCgroup) {
  EXPECT_EQ(Find().bytes, 1000 * 1024);
  EXPECT_EQ(Find().source, "memory of the machine");
}

TEST_F(MemoryLimitTest, Version2) {
  Write("proc/self/cgroup", "0::/a/b\n");
  Write("sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(Find().bytes, 1000 * 1024);
  Write("sys/fs/cgroup/a/b/memory.max", "4096\n");
  EXPECT_EQ(Find().bytes, 4096);
  EXPECT_EQ(Find().source, "memory limit of the cgroup");
}

TEST_F(MemoryLimitTest, Version1) {
  Write("proc/self/cgroup", "5:cpu:/x\n4:memory:/box\n");
  Write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "8192\n");
  EXPECT_EQ(Find().bytes, 8192);
}

TEST_F(MemoryLimitTest, LimitAboveTheMachine) {
  Write("sys/fs/cgroup/memory.max", "9223372036854771712\n");
  EXPECT_EQ(Find().bytes, 1000 * 1024);
}

TEST(MemoryLimit, ThisMachineHasSome) {
  EXPECT_GT(FindMemoryLimit().bytes, 1 << 20);
}

}  // namespace
}  // namespace deepinfer
