#include "base/team_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace deepinfer {
namespace {

struct Place {
  std::vector<int> cpus;
  int node = -1;
};

std::string Count(int number, const std::string& noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

void ChooseCount(const Machine& machine, int asked, TeamPlan* plan) {
  const int cpus = static_cast<int>(machine.cpus.size());
  plan->threads = std::max(cpus, 1);
  std::string reason = cpus > 0 ? Count(cpus, "CPU") + " in the affinity mask" : "the affinity mask is unknown";
  if (asked > 0) {
    plan->threads = asked;
    reason = "as asked";
  } else {
    if (cpus > 0 && machine.cores < plan->threads) {
      plan->threads = machine.cores;
      reason = fmt::format("{} for {} CPUs", Count(machine.cores, "physical core"), cpus);
    }
    const double whole = std::max(std::floor(machine.quota), 1.0);
    if (machine.quota > 0 && whole < plan->threads) {
      plan->threads = static_cast<int>(whole);
      reason = fmt::format("cgroup CPU quota of {:.2f} for {}", machine.quota, Count(machine.cores, "core"));
    }
  }
  plan->count = fmt::format("{} ({})", Count(plan->threads, "thread"), reason);
}

// Why the team is not pinned; empty if it is.
std::string WhyNotPinned(const Machine& machine, int threads, Pinning pinning) {
  if (pinning == Pinning::kNever) return "as asked";
  if (machine.cpus.empty()) return "the affinity mask is unknown";
  if (pinning == Pinning::kAlways) return "";
  if (threads > machine.cores) return fmt::format("more threads than the {}", Count(machine.cores, "core"));
  if (machine.quota > 0 && machine.quota < threads) return fmt::format("a CPU quota of {:.2f}", machine.quota);
  if (threads < machine.cores) return fmt::format("{} to choose from", Count(machine.cores, "core"));
  return threads == 1 ? "one thread" : "";
}

// Physical cores while there are enough of them, else single CPUs, a first one of every core before a second.
std::vector<Place> PlacesOf(const Machine& machine, int threads) {
  std::vector<Place> cores(static_cast<size_t>(machine.cores));
  for (const Cpu& cpu : machine.cpus) {
    cores[static_cast<size_t>(cpu.core)].cpus.push_back(cpu.id);
    cores[static_cast<size_t>(cpu.core)].node = cpu.node;
  }
  if (threads <= machine.cores) return cores;
  std::vector<Place> places;
  for (size_t sibling = 0; places.size() < machine.cpus.size(); ++sibling) {
    for (const Place& core : cores) {
      if (sibling < core.cpus.size()) places.push_back({{core.cpus[sibling]}, core.node});
    }
  }
  return places;
}

// As many places, in the order of their nodes: one of each node in turn is taken, so that a small team has the
// bandwidth of all nodes, and members next to each other are near the same memory. When all are taken they are taken
// again.
std::vector<Place> ChoosePlaces(const std::vector<Place>& places, int threads) {
  std::map<int, std::vector<Place>> by_node;
  for (const Place& place : places) by_node[place.node].push_back(place);
  std::map<int, size_t> share;
  size_t taken = 0;
  while (taken < static_cast<size_t>(threads)) {
    for (const auto& [node, own] : by_node) {
      const bool free = share[node] < own.size() || taken >= places.size();
      if (!free || taken == static_cast<size_t>(threads)) continue;
      ++share[node];
      ++taken;
    }
  }
  std::vector<Place> chosen;
  for (const auto& [node, own] : by_node) {
    for (size_t i = 0; i < share[node]; ++i) chosen.push_back(own[i % own.size()]);
  }
  return chosen;
}

std::vector<MemoryNode> NodesOf(const Machine& machine, const std::vector<Place>& chosen) {
  std::map<int, MemoryNode> nodes;
  for (const Cpu& cpu : machine.cpus) {
    const bool used = chosen.empty() || std::any_of(chosen.begin(), chosen.end(),
                                                    [&](const Place& place) { return place.node == cpu.node; });
    if (!used) continue;
    nodes[cpu.node].id = cpu.node;
    nodes[cpu.node].cpus.push_back(cpu.id);
  }
  std::vector<MemoryNode> list;
  for (auto& [id, node] : nodes) list.push_back(std::move(node));
  return list;
}

void PlaceMemory(const Machine& machine, const std::vector<Place>& chosen, bool wanted, TeamPlan* plan) {
  const int known = std::max(static_cast<int>(machine.memory_nodes.size()), 1);
  plan->memory = Count(known, "memory node");
  if (known == 1) return;
  const bool unknown =
      std::any_of(machine.cpus.begin(), machine.cpus.end(), [](const Cpu& cpu) { return cpu.node < 0; });
  if (!wanted || machine.cpus.empty() || unknown) {
    plan->memory += fmt::format(", left to the system ({})", wanted ? "the CPUs' nodes are unknown" : "as asked");
    return;
  }
  TeamPlacement& placement = plan->placement;
  placement.nodes = NodesOf(machine, chosen);
  if (placement.nodes.size() == 1) {
    placement.node_of.assign(static_cast<size_t>(plan->threads), placement.nodes[0].id);
    plan->memory += fmt::format(": memory on node {}, where the threads are", placement.nodes[0].id);
    return;
  }
  for (const Place& place : chosen) placement.node_of.push_back(place.node);
  std::vector<int> ids;
  for (const MemoryNode& node : placement.nodes) ids.push_back(node.id);
  plan->memory += fmt::format(
      ": {} over nodes {}",
      chosen.empty() ? "weights and KV cache spread" : "weights near the threads that read them, KV cache spread",
      fmt::join(ids, ", "));
}

}  // namespace

TeamPlan PlanTeam(const Machine& machine, const TeamOptions& options) {
  TeamPlan plan;
  ChooseCount(machine, options.threads, &plan);
  const std::string reason = WhyNotPinned(machine, plan.threads, options.pinning);
  std::vector<Place> chosen;
  if (reason.empty()) {
    chosen = ChoosePlaces(PlacesOf(machine, plan.threads), plan.threads);
    for (const Place& place : chosen) plan.placement.cpus.push_back(place.cpus);
    plan.pinning = plan.threads <= machine.cores ? "each pinned to a core of its own" : "each pinned to a CPU";
  } else {
    plan.pinning = fmt::format("not pinned ({})", reason);
  }
  PlaceMemory(machine, chosen, options.place_memory, &plan);
  return plan;
}

TeamPlan PlanTeam(const TeamOptions& options) {
  return PlanTeam(ReadMachine("", AffinityCpus()), options);
}

std::string ToString(const TeamPlan& plan) {
  return fmt::format("{}, {}; {}", plan.count, plan.pinning, plan.memory);
}

}  // namespace deepinfer
