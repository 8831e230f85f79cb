#include "base/cpu_topology.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "base/cpu_mask.h"
#include "base/numa_nodes.h"

namespace deepinfer {
namespace {

// Quota / period in CPUs; 0 where either is not a positive number ("max", -1).
double Ratio(const std::string& quota, const std::string& period) {
  double numerator = std::atof(quota.c_str());
  double denominator = std::atof(period.c_str());
  return numerator > 0 && denominator > 0 ? numerator / denominator : 0;
}

double QuotaOfV2(const std::string& folder) {
  std::istringstream fields(FirstLine(folder + "/cpu.max"));
  std::string quota, period;
  fields >> quota >> period;
  return Ratio(quota, period);
}

double QuotaOfV1(const std::string& folder) {
  return Ratio(FirstLine(folder + "/cpu.cfs_quota_us"), FirstLine(folder + "/cpu.cfs_period_us"));
}

// The smallest positive quota from `path` up to the mount's root. A parent's quota binds its children too; inside a
// container the path may name folders that are not mounted, which then limit nothing.
double SmallestUpwards(const std::string& mount, std::string path, double (*quota_of)(const std::string&)) {
  double smallest = 0;
  while (true) {
    double quota = quota_of(mount + path);
    if (quota > 0 && (smallest == 0 || quota < smallest)) smallest = quota;
    size_t slash = path.rfind('/');
    if (path.empty() || slash == std::string::npos) return smallest;
    path.resize(slash);
  }
}

bool ListContains(const std::string& list, const std::string& word) {
  std::istringstream fields(list);
  for (std::string field; std::getline(fields, field, ',');) {
    if (field == word) return true;
  }
  return false;
}

}  // namespace

std::vector<int> AffinityCpus() {
  CpuMask mask;
  mask.ReadFromThisThread();
  return mask.Cpus();
}

double CgroupCpuQuota(const std::string& root) {
  double smallest = 0;
  auto consider = [&smallest](double quota) {
    if (quota > 0 && (smallest == 0 || quota < smallest)) smallest = quota;
  };
  std::ifstream file(root + "/proc/self/cgroup");
  // One line per hierarchy: "id:controllers:path"; v2's is "0::path".
  for (std::string line; std::getline(file, line);) {
    size_t first = line.find(':');
    size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    const std::string mount = root + "/sys/fs/cgroup";
    if (controllers.empty()) {
      consider(SmallestUpwards(mount, path, QuotaOfV2));
      consider(SmallestUpwards(mount + "/unified", path, QuotaOfV2));  // hybrid set-ups mount v2 there
    } else if (ListContains(controllers, "cpu")) {
      consider(SmallestUpwards(mount + "/" + controllers, path, QuotaOfV1));
      consider(SmallestUpwards(mount + "/cpu", path, QuotaOfV1));
    }
  }
  return smallest;
}

Machine ReadMachine(const std::string& root, const std::vector<int>& cpus) {
  const NumaNodes nodes = ReadNumaNodes(root);
  Machine machine;
  machine.quota = CgroupCpuQuota(root);
  machine.memory_nodes = nodes.memory;
  std::map<std::string, int> cores;
  for (const int cpu : cpus) {
    const std::string topology = root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    // The list of hardware threads of one core names that core; the second name is what older kernels call it.
    std::string siblings = FirstLine(topology + "core_cpus_list");
    if (siblings.empty()) siblings = FirstLine(topology + "thread_siblings_list");
    if (siblings.empty()) siblings = "cpu" + std::to_string(cpu);
    const int core = cores.emplace(siblings, static_cast<int>(cores.size())).first->second;
    const auto node = nodes.nearest.find(cpu);
    machine.cpus.push_back({cpu, core, node == nodes.nearest.end() ? -1 : node->second});
  }
  machine.cores = static_cast<int>(cores.size());
  return machine;
}

}  // namespace deepinfer
