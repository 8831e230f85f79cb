#include "base/thread_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "base/cpu_topology.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace deepinfer {
namespace {

TEST(ThreadTeam, EveryMemberRunsOncePerRun) {
  for (int members : {1, 2, 3, 5}) {
    ThreadTeam team(members);
    ASSERT_EQ(team.members(), members);
    std::vector<int> counts(members, 0);
    auto count = [&](int member, int total) {
      EXPECT_EQ(total, members);
      ++counts[member];
    };
    for (int run = 0; run < 200; ++run) team.Run(count);
    EXPECT_EQ(counts, std::vector<int>(members, 200));
  }
}

TEST(ThreadTeam, MembersThatParkedWakeUp) {
  ThreadTeam team(3);
  std::atomic<int> total{0};
  auto add = [&](int, int) { total.fetch_add(1, std::memory_order_relaxed); };
  for (int run = 0; run < 20; ++run) {
    std::this_thread::sleep_for(std::chrono::milliseconds(run % 3));
    team.Run(add);
    EXPECT_EQ(total.load(), 3 * (run + 1));
  }
}

TEST(ThreadTeam, MemoryWrittenBeforeTheBarrierIsVisibleAfterIt) {
  constexpr int kMembers = 3, kRounds = 300;
  ThreadTeam team(kMembers);
  std::vector<int> values(kMembers, 0);  // plain ints: a missing edge shows under the thread sanitizer
  std::vector<int> errors(kMembers, 0);
  auto rounds = [&](int member, int members) {
    for (int round = 1; round <= kRounds; ++round) {
      values[member] = round * (member + 1);
      team.Barrier();
      for (int other = 0; other < members; ++other) errors[member] += values[other] != round * (other + 1);
      team.Barrier();
    }
  };
  team.Run(rounds);
  EXPECT_EQ(errors, std::vector<int>(kMembers, 0));
}

TEST(ThreadTeam, ATeamThatNeverRanCanBeDestroyed) {
  ThreadTeam team(4);
}

#if defined(__x86_64__)
TEST(ThreadTeam, FlushesDenormalsInsideAndRestoresTheCallersState) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(0x1f80u | 0x6000u);  // round towards zero
  ThreadTeam team(2);
  std::vector<unsigned> inside(2);
  auto read = [&](int member, int) { inside[member] = _mm_getcsr(); };
  team.Run(read);
  EXPECT_EQ(_mm_getcsr() & 0xffc0u, (0x1f80u | 0x6000u) & 0xffc0u);
  _mm_setcsr(before);
  for (unsigned state : inside) EXPECT_EQ(state & 0xffc0u, 0x1f80u | 0x8040u);
}
#endif

TEST(SplitRange, PartsAreInOrderCoverAllAndStartAtGrains) {
  for (int64_t total : {0, 1, 7, 64, 1000}) {
    for (int64_t grain : {1, 3, 64}) {
      for (int members : {1, 2, 3, 16}) {
        int64_t next = 0;
        for (int member = 0; member < members; ++member) {
          const Range range = SplitRange(total, grain, member, members);
          EXPECT_EQ(range.begin, next);
          EXPECT_LE(range.begin, range.end);
          if (range.begin < range.end) {
            EXPECT_EQ(range.begin % grain, 0);
          }
          next = range.end;
        }
        EXPECT_EQ(next, total);
      }
    }
  }
}

TEST(ChooseDefaultThreads, IsWithinTheAffinityAndSaysWhy) {
  const DefaultThreads threads = ChooseDefaultThreads();
  EXPECT_GE(threads.count, 1);
  EXPECT_LE(threads.count, static_cast<int>(AffinityCpus().size()));
  EXPECT_FALSE(threads.reason.empty());
}

// A folder that stands for "/", removed at the end.
class FakeRoot : public ::testing::Test {
 protected:
  FakeRoot() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = std::filesystem::path(::testing::TempDir()) / (std::string("di_fake_root_") + info->name());
    std::filesystem::remove_all(root_);
  }
  ~FakeRoot() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root_.string() + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  std::string root() const { return root_.string(); }

 private:
  std::filesystem::path root_;
};

using CpuTopology = FakeRoot;

TEST_F(CpuTopology, NoFilesMeanNoQuota) {
  EXPECT_EQ(CgroupCpuQuota(root()), 0);
}

TEST_F(CpuTopology, V2TakesTheSmallestOfAllAncestors) {
  Write("/proc/self/cgroup", "0::/a/b\n");
  Write("/sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
  Write("/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_DOUBLE_EQ(CgroupCpuQuota(root()), 1.5);
}

TEST_F(CpuTopology, V2MaxIsNoQuota) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(CgroupCpuQuota(root()), 0);
}

TEST_F(CpuTopology, V2PathThatIsNotMountedFallsBackToTheRoot) {
  Write("/proc/self/cgroup", "0::/docker/1234\n");
  Write("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_DOUBLE_EQ(CgroupCpuQuota(root()), 2);
}

TEST_F(CpuTopology, V1ReadsTheCpuControllerOnly) {
  Write("/proc/self/cgroup", "5:cpuset:/x\n4:cpu,cpuacct:/x\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "300000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
  Write("/sys/fs/cgroup/cpuset/x/cpu.cfs_quota_us", "100000\n");
  Write("/sys/fs/cgroup/cpuset/x/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(CgroupCpuQuota(root()), 3);
  Write("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(CgroupCpuQuota(root()), 0);
}

TEST_F(CpuTopology, GarbageLimitsNothing) {
  Write("/proc/self/cgroup", "nonsense\n0::/\n:\n");
  Write("/sys/fs/cgroup/cpu.max", "many few\n");
  EXPECT_EQ(CgroupCpuQuota(root()), 0);
}

TEST_F(CpuTopology, CountsCoresNotHardwareThreads) {
  for (int cpu = 0; cpu < 4; ++cpu) {
    Write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/core_cpus_list",
          cpu % 2 ? "1,3\n" : "0,2\n");
  }
  EXPECT_EQ(PhysicalCores(root(), {0, 1, 2, 3}), 2);
  EXPECT_EQ(PhysicalCores(root(), {0, 2}), 1);
  EXPECT_EQ(PhysicalCores(root(), {0, 1, 8}), 3);  // no files for 8
}

}  // namespace
}  // namespace deepinfer
