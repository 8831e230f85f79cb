#include "base/cpu_topology.h"

#include "base/fake_root.h"
#include "base/numa_nodes.h"

namespace deepinfer {
namespace {

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
  EXPECT_EQ(ReadMachine(root(), {0, 1, 2, 3}).cores, 2);
  EXPECT_EQ(ReadMachine(root(), {0, 2}).cores, 1);
  EXPECT_EQ(ReadMachine(root(), {0, 1, 8}).cores, 3);  // no files for 8
  const Machine machine = ReadMachine(root(), {0, 1, 2, 3});
  ASSERT_EQ(machine.cpus.size(), 4u);
  for (int cpu = 0; cpu < 4; ++cpu) {
    EXPECT_EQ(machine.cpus[static_cast<size_t>(cpu)].id, cpu);
    EXPECT_EQ(machine.cpus[static_cast<size_t>(cpu)].core, cpu % 2);
    EXPECT_EQ(machine.cpus[static_cast<size_t>(cpu)].node, -1);  // no node folder
  }
}

TEST(CpuLists, RangesSinglesAndNonsense) {
  EXPECT_EQ(ParseCpuList("0-2,8"), (std::vector<int>{0, 1, 2, 8}));
  EXPECT_EQ(ParseCpuList("3"), std::vector<int>{3});
  for (const char* text : {"", " ", "a", "1-", "-1", "2-1", "1,,2", "0-99999999", "1 2"}) {
    EXPECT_EQ(ParseCpuList(text), std::vector<int>()) << text;
  }
}

class Nodes : public FakeRoot {
 protected:
  void Node(int node, const std::string& cpus, const std::string& distances) {
    const std::string folder = "/sys/devices/system/node/node" + std::to_string(node);
    Write(folder + "/cpulist", cpus + "\n");
    Write(folder + "/distance", distances + "\n");
  }
  void Online(const std::string& nodes, const std::string& with_memory) {
    Write("/sys/devices/system/node/online", nodes + "\n");
    Write("/sys/devices/system/node/has_memory", with_memory + "\n");
  }
  std::vector<int> NodeOfEach(const std::vector<int>& cpus) const {
    std::vector<int> nodes;
    for (const Cpu& cpu : ReadMachine(root(), cpus).cpus) nodes.push_back(cpu.node);
    return nodes;
  }
};

TEST_F(Nodes, One) {
  Online("0", "0");
  Node(0, "0-3", "10");
  EXPECT_EQ(ReadNumaNodes(root()).memory, std::vector<int>{0});
  EXPECT_EQ(NodeOfEach({0, 3}), (std::vector<int>{0, 0}));
}

TEST_F(Nodes, TwoAndACpuThatNoNodeLists) {
  Online("0-1", "0-1");
  Node(0, "0-1,4-5", "10 21");
  Node(1, "2-3,6", "21 10");  // 7 is offline
  EXPECT_EQ(ReadNumaNodes(root()).memory, (std::vector<int>{0, 1}));
  EXPECT_EQ(NodeOfEach({0, 1, 2, 3, 4, 5, 6, 7}), (std::vector<int>{0, 0, 1, 1, 0, 0, 1, -1}));
}

TEST_F(Nodes, FourOfWhichTwoHaveMemory) {
  Online("0-3", "1,3");
  Node(0, "0", "10 16 32 33");
  Node(1, "1", "16 10 33 32");
  Node(2, "2", "32 33 10 16");
  Node(3, "3", "33 32 16 10");
  EXPECT_EQ(ReadNumaNodes(root()).memory, (std::vector<int>{1, 3}));
  EXPECT_EQ(NodeOfEach({0, 1, 2, 3}), (std::vector<int>{1, 1, 3, 3}));
}

TEST_F(Nodes, DistancesAreThoseOfNodesThatAreOnline) {
  Online("0,2,5", "2,5");
  Node(0, "0", "10 30 20");
  Node(2, "", "30 10 40");
  Node(5, "", "20 40 10");
  EXPECT_EQ(NodeOfEach({0}), std::vector<int>{5});
}

TEST_F(Nodes, MemoryOfACpusetThatCoversOneNode) {
  Online("0-1", "0-1");
  Node(0, "0-1", "10 21");
  Node(1, "2-3", "21 10");
  Write("/proc/self/status", "Name:\tx\nMems_allowed:\t2\nMems_allowed_list:\t1\n");
  EXPECT_EQ(ReadNumaNodes(root()).memory, std::vector<int>{1});
  EXPECT_EQ(NodeOfEach({0, 2}), (std::vector<int>{1, 1}));
}

TEST_F(Nodes, WithoutHasMemoryTheNodesSayHowMuchTheyHave) {
  Write("/sys/devices/system/node/online", "0-1\n");
  Node(0, "0", "10 21");
  Node(1, "1", "21 10");
  Write("/sys/devices/system/node/node0/meminfo", "\nNode 0 MemTotal:       0 kB\nNode 0 MemFree: 0 kB\n");
  Write("/sys/devices/system/node/node1/meminfo", "\nNode 1 MemTotal:       16384 kB\n");
  EXPECT_EQ(ReadNumaNodes(root()).memory, std::vector<int>{1});
}

TEST_F(Nodes, NonsenseSaysNothing) {
  Online("one", "two");
  EXPECT_TRUE(ReadNumaNodes(root()).memory.empty());
  EXPECT_TRUE(ReadNumaNodes(root()).nearest.empty());
}

}  // namespace
}  // namespace deepinfer
