#include "base/thread_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/cpu_mask.h"
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

// Where this machine lets us choose: members see the CPUs they were given, the caller only while it runs.
TEST(ThreadTeam, MembersArePinnedAndTheCallerGetsItsCpusBack) {
  const std::vector<int> before = AffinityCpus();
  ASSERT_FALSE(before.empty());
  for (const int members : {1, 2, 3}) {
    std::vector<std::vector<int>> cpus;
    for (int member = 0; member < members; ++member) {
      cpus.push_back({before[static_cast<size_t>(members - member) % before.size()]});
    }
    ThreadTeam team(members, cpus);
    EXPECT_TRUE(team.pinned());
    std::vector<std::vector<int>> seen(static_cast<size_t>(members));
    auto look = [&](int member, int) { seen[static_cast<size_t>(member)] = AffinityCpus(); };
    for (int run = 0; run < 3; ++run) {
      team.Run(look);
      EXPECT_EQ(seen, cpus);
      EXPECT_EQ(AffinityCpus(), before);
    }
    // Whoever calls is member 0.
    std::vector<int> of_caller;
    std::thread([&] {
      team.Run(look);
      of_caller = AffinityCpus();
    }).join();
    EXPECT_EQ(seen, cpus);
    EXPECT_EQ(of_caller, before);
  }
}

TEST(ThreadTeam, WithoutCpusNobodyIsPinned) {
  const std::vector<int> before = AffinityCpus();
  ThreadTeam team(2);
  EXPECT_FALSE(team.pinned());
  std::vector<std::vector<int>> seen(2);
  auto look = [&](int member, int) { seen[static_cast<size_t>(member)] = AffinityCpus(); };
  team.Run(look);
  EXPECT_EQ(seen, std::vector<std::vector<int>>(2, before));
}

TEST(ThreadTeam, CpusThatAreNotThereLeaveTheTeamAsItWas) {
  const std::vector<int> before = AffinityCpus();
  ThreadTeam team(2, {{CpuMask::kMaxCpus - 1}, {CpuMask::kMaxCpus - 1}});
  EXPECT_FALSE(team.pinned());
  std::vector<std::vector<int>> seen(2);
  auto look = [&](int member, int) { seen[static_cast<size_t>(member)] = AffinityCpus(); };
  team.Run(look);
  EXPECT_EQ(seen, std::vector<std::vector<int>>(2, before));
  EXPECT_EQ(AffinityCpus(), before);
}

}  // namespace
}  // namespace deepinfer
