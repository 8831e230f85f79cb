// How a team of threads lies on a machine: how many threads, which CPUs each is pinned to, and which memory is near it.
// Decided once, from data (cpu_topology.h), with each decision's reason in words. Pure; thread-safe.
//
// Threads are pinned, if nobody says otherwise, where each gets a physical core of its own and the team takes all the
// cores it is allowed: then nothing is lost by it, and no two threads that wait for each other share a core. Not with
// fewer threads than cores (another process would choose the same ones), not with more, and not below a CPU quota that
// stops threads anyway. A thread may use all hardware threads of its core.
//
// Memory is placed where there is more than one node that the process may use.
#pragma once

#include <string>
#include <vector>

#include "base/cpu_topology.h"

namespace deepinfer {

enum class Pinning { kAuto, kAlways, kNever };

struct TeamOptions {
  int threads = 0;  // 0: as many as affinity, quota and physical cores allow
  Pinning pinning = Pinning::kAuto;
  bool place_memory = true;
};

struct MemoryNode {
  int id = 0;
  std::vector<int> cpus;  // of the team, near it
};

struct TeamPlacement {
  std::vector<std::vector<int>> cpus;  // what each member is pinned to; empty: no member is pinned
  std::vector<MemoryNode> nodes;       // near the team, ascending; empty: memory lies where it falls
  std::vector<int> node_of;            // the node near each member; empty: members move between nodes
};

struct TeamPlan {
  int threads = 1;
  TeamPlacement placement;
  std::string count;    // "2 threads (2 CPUs in the affinity mask)"
  std::string pinning;  // "each pinned to a core of its own", "not pinned (...)"
  std::string memory;   // "1 memory node", "2 memory nodes: ..."
};

TeamPlan PlanTeam(const Machine& machine, const TeamOptions& options);
// Of this machine and what the calling thread may use of it.
TeamPlan PlanTeam(const TeamOptions& options);

std::string ToString(const TeamPlan& plan);  // all of it, one line

}  // namespace deepinfer
