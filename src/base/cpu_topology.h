// What limits the number of useful threads: affinity, cgroup CPU quota (v1 and v2, every ancestor), physical cores.
//
// Read from /proc and /sys below `root` ("" on a real machine; tests pass a folder). A file that is missing or cannot
// be understood limits nothing. Thread-safe (no state). Source: Linux's admin-guide/cgroup-v2, cgroup-v1 sched-bwc and
// ABI/testing/sysfs-devices-system-cpu.
#pragma once

#include <string>
#include <vector>

namespace deepinfer {

// The CPUs this thread may run on; never empty.
std::vector<int> AffinityCpus();

// The smallest CPU quota (in CPUs) of this process's cgroups; 0 = no limit.
double CgroupCpuQuota(const std::string& root);

// Distinct physical cores among `cpus`; a CPU without topology files counts as a core of its own.
int PhysicalCores(const std::string& root, const std::vector<int>& cpus);

}  // namespace deepinfer
