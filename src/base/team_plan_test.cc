#include "base/team_plan.h"

#include <gtest/gtest.h>

namespace deepinfer {
namespace {

using Cpus = std::vector<std::vector<int>>;

// `nodes` with `cores` each of `siblings` hardware threads, numbered as x86 does: all first siblings, then the second.
Machine Make(int nodes, int cores, int siblings = 1) {
  Machine machine;
  machine.cores = nodes * cores;
  for (int cpu = 0; cpu < machine.cores * siblings; ++cpu) {
    const int core = cpu % machine.cores;
    machine.cpus.push_back({cpu, core, core / cores});
  }
  for (int node = 0; node < nodes; ++node) machine.memory_nodes.push_back(node);
  return machine;
}

std::vector<int> Ids(const TeamPlacement& placement) {
  std::vector<int> ids;
  for (const MemoryNode& node : placement.nodes) ids.push_back(node.id);
  return ids;
}

TEST(TeamPlan, ACoreForEachThread) {
  const TeamPlan plan = PlanTeam(Make(1, 2), {});
  EXPECT_EQ(plan.threads, 2);
  EXPECT_EQ(plan.placement.cpus, (Cpus{{0}, {1}}));
  EXPECT_TRUE(plan.placement.nodes.empty());
  EXPECT_TRUE(plan.placement.node_of.empty());
  EXPECT_EQ(ToString(plan), "2 threads (2 CPUs in the affinity mask), each pinned to a core of its own; 1 memory node");
}

TEST(TeamPlan, AThreadHasAllHardwareThreadsOfItsCore) {
  const TeamPlan plan = PlanTeam(Make(1, 3, 2), {});
  EXPECT_EQ(plan.count, "3 threads (3 physical cores for 6 CPUs)");
  EXPECT_EQ(plan.placement.cpus, (Cpus{{0, 3}, {1, 4}, {2, 5}}));
}

struct NotPinned {
  const char* what;
  int cores = 4;
  TeamOptions options;
  double quota = 0;
  int threads = 0;  // planned
  const char* reason = "";
};

TEST(TeamPlan, PinsOnlyWhereItIsSensibleAndSaysWhyNot) {
  const NotPinned cases[] = {
      {"alone", 1, {}, 0, 1, "not pinned (one thread)"},
      {"fewer", 4, {.threads = 3}, 0, 3, "not pinned (4 cores to choose from)"},
      {"more", 4, {.threads = 5}, 0, 5, "not pinned (more threads than the 4 cores)"},
      {"quota, chosen", 4, {}, 2.5, 2, "not pinned (a CPU quota of 2.50)"},
      {"quota, asked", 4, {.threads = 4}, 3.9, 4, "not pinned (a CPU quota of 3.90)"},
      {"forbidden", 4, {.pinning = Pinning::kNever}, 0, 4, "not pinned (as asked)"},
  };
  for (const NotPinned& each : cases) {
    SCOPED_TRACE(each.what);
    Machine machine = Make(1, each.cores);
    machine.quota = each.quota;
    const TeamPlan plan = PlanTeam(machine, each.options);
    EXPECT_EQ(plan.threads, each.threads);
    EXPECT_TRUE(plan.placement.cpus.empty());
    if (std::string(each.what) != "quota, chosen") {
      EXPECT_EQ(plan.pinning, each.reason);
    }
    TeamOptions forced = each.options;
    forced.pinning = Pinning::kAlways;
    EXPECT_EQ(PlanTeam(machine, forced).placement.cpus.size(), static_cast<size_t>(each.threads));
  }
}

TEST(TeamPlan, AQuotaOfAtLeastTheCoresHindersNothing) {
  Machine machine = Make(1, 2);
  machine.quota = 2;
  EXPECT_EQ(PlanTeam(machine, {}).placement.cpus.size(), 2u);
  machine.quota = 0.5;
  const TeamPlan plan = PlanTeam(machine, {});
  EXPECT_EQ(plan.count, "1 thread (cgroup CPU quota of 0.50 for 2 cores)");
  EXPECT_TRUE(plan.placement.cpus.empty());
}

TEST(TeamPlan, AnUnknownMaskIsOneThreadThatIsNeverPinned) {
  const TeamPlan plan = PlanTeam(Machine(), {.pinning = Pinning::kAlways});
  EXPECT_EQ(plan.threads, 1);
  EXPECT_TRUE(plan.placement.cpus.empty());
  EXPECT_EQ(plan.pinning, "not pinned (the affinity mask is unknown)");
  EXPECT_EQ(PlanTeam(Machine(), {.threads = 3}).threads, 3);
}

TEST(TeamPlan, ForcedWithFewThreadsTakesFromEveryNode) {
  const TeamPlan plan = PlanTeam(Make(2, 4), {.threads = 3, .pinning = Pinning::kAlways});
  EXPECT_EQ(plan.placement.cpus, (Cpus{{0}, {1}, {4}}));
  EXPECT_EQ(plan.placement.node_of, (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(Ids(plan.placement), (std::vector<int>{0, 1}));
}

TEST(TeamPlan, ForcedWithMoreThreadsThanCoresTakesSiblingsThenBeginsAnew) {
  EXPECT_EQ(PlanTeam(Make(1, 2, 2), {.threads = 3, .pinning = Pinning::kAlways}).placement.cpus, (Cpus{{0}, {1}, {2}}));
  EXPECT_EQ(PlanTeam(Make(1, 2), {.threads = 5, .pinning = Pinning::kAlways}).placement.cpus,
            (Cpus{{0}, {1}, {0}, {1}, {0}}));
}

// Linux often numbers cores in turn over the nodes; members must not.
TEST(TeamPlan, MembersOfANodeAreNeighbours) {
  Machine machine = Make(2, 2);
  for (Cpu& cpu : machine.cpus) cpu.node = cpu.id % 2;
  const TeamPlan plan = PlanTeam(machine, {});
  EXPECT_EQ(plan.placement.cpus, (Cpus{{0}, {2}, {1}, {3}}));
  EXPECT_EQ(plan.placement.node_of, (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(plan.placement.nodes[1].cpus, (std::vector<int>{1, 3}));
  EXPECT_EQ(plan.memory, "2 memory nodes: weights near the threads that read them, KV cache spread over nodes 0, 1");
}

TEST(TeamPlan, ThreadsThatMoveHaveTheirMemorySpread) {
  const TeamPlan plan = PlanTeam(Make(4, 2), {.threads = 3});
  EXPECT_TRUE(plan.placement.node_of.empty());
  EXPECT_EQ(Ids(plan.placement), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(plan.memory, "4 memory nodes: weights and KV cache spread over nodes 0, 1, 2, 3");
}

// A mask of one node's CPUs: wherever the threads are, that node is near, although the others have memory, too.
TEST(TeamPlan, CpusOfOneNodeHaveTheirMemoryThere) {
  Machine machine = Make(2, 2);
  machine.cpus = {{2, 0, 1}, {3, 1, 1}};
  machine.cores = 2;
  for (const Pinning pinning : {Pinning::kAuto, Pinning::kNever}) {
    const TeamPlan plan = PlanTeam(machine, {.pinning = pinning});
    EXPECT_EQ(Ids(plan.placement), std::vector<int>{1});
    EXPECT_EQ(plan.placement.node_of, (std::vector<int>{1, 1}));
    EXPECT_EQ(plan.memory, "2 memory nodes: memory on node 1, where the threads are");
  }
}

TEST(TeamPlan, MemoryIsLeftAloneWhereNobodyKnowsOrWantsIt) {
  const TeamPlan unwanted = PlanTeam(Make(2, 2), {.place_memory = false});
  EXPECT_EQ(unwanted.placement.cpus.size(), 4u);
  EXPECT_TRUE(unwanted.placement.nodes.empty());
  EXPECT_EQ(unwanted.memory, "2 memory nodes, left to the system (as asked)");
  Machine machine = Make(2, 2);
  machine.cpus[3].node = -1;
  const TeamPlan unknown = PlanTeam(machine, {});
  EXPECT_TRUE(unknown.placement.nodes.empty());
  EXPECT_TRUE(unknown.placement.node_of.empty());
  EXPECT_EQ(unknown.memory, "2 memory nodes, left to the system (the CPUs' nodes are unknown)");
}

TEST(TeamPlan, OfThisMachine) {
  const TeamPlan plan = PlanTeam({});
  EXPECT_GE(plan.threads, 1);
  EXPECT_LE(plan.threads, static_cast<int>(AffinityCpus().size()));
  EXPECT_TRUE(plan.placement.cpus.empty() || plan.placement.cpus.size() == static_cast<size_t>(plan.threads));
  RecordProperty("plan", ToString(plan));
}

}  // namespace
}  // namespace deepinfer
