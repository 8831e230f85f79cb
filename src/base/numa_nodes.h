// The NUMA nodes of a machine, from /sys/devices/system/node and /proc/self/status below `root`: which have memory that
// this process may use (a cpuset can leave some out), and which of them is nearest to a CPU.
//
// A file that is missing or cannot be understood says nothing; where nothing is known both members are empty.
// Thread-safe (no state). Source: Linux's ABI/stable/sysfs-devices-node, proc(5).
#pragma once

#include <map>
#include <string>
#include <vector>

namespace deepinfer {

struct NumaNodes {
  std::vector<int> memory;     // ascending
  std::map<int, int> nearest;  // CPU -> one of `memory`
};
NumaNodes ReadNumaNodes(const std::string& root);

// "0-2,8" is 0, 1, 2, 8; what is no list of CPUs or nodes is empty.
std::vector<int> ParseCpuList(const std::string& text);

// The first line of a file, or "" if there is none.
std::string FirstLine(const std::string& path);

}  // namespace deepinfer
