// What a process may compute with: its CPUs, their physical cores and memory nodes, and its cgroup CPU quota (v1 and
// v2, every ancestor).
//
// Read from /proc and /sys below `root` ("" on a real machine; tests pass a folder). A file that is missing or cannot
// be understood limits nothing. Thread-safe (no state). Source: Linux's admin-guide/cgroup-v2, cgroup-v1 sched-bwc,
// ABI/testing/sysfs-devices-system-cpu and ABI/stable/sysfs-devices-node.
#pragma once

#include <string>
#include <vector>

namespace deepinfer {

struct Cpu {
  int id = 0;
  int core = 0;   // the same for the hardware threads of one physical core; numbered from 0, by first CPU
  int node = -1;  // the nearest node with memory that may be used; -1: unknown
};

struct Machine {
  std::vector<Cpu> cpus;  // that may be used, ascending; empty where the system does not say
  int cores = 0;          // physical ones of those
  double quota = 0;       // in CPUs; 0: none
  // NUMA nodes that this process may have memory from, ascending; empty where the system does not say.
  std::vector<int> memory_nodes;
};

// The CPUs this thread may run on, ascending; empty where the system does not say.
std::vector<int> AffinityCpus();

// The smallest CPU quota (in CPUs) of this process's cgroups; 0 = no limit.
double CgroupCpuQuota(const std::string& root);

// `cpus`: ascending, as AffinityCpus gives them. A CPU without topology files counts as a core of its own.
Machine ReadMachine(const std::string& root, const std::vector<int>& cpus);

}  // namespace deepinfer
