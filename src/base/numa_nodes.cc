#include "base/numa_nodes.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

#include "base/cpu_mask.h"

namespace deepinfer {
namespace {

bool ParseNumber(std::string_view text, int* number) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && rest == end && *number >= 0 && *number < CpuMask::kMaxCpus;
}

// Of the line that begins with `key` and a colon, what follows; "" if there is none.
std::string Field(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key + ":", 0) != 0) continue;
    const size_t start = line.find_first_not_of(" \t", key.size() + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

// Kernels before has_memory say it for each node: "Node 0 MemTotal:  16384 kB".
bool HasMemory(const std::string& folder, int node) {
  std::istringstream words(Field(folder + "/meminfo", "Node " + std::to_string(node) + " MemTotal"));
  int64_t kilobytes = 0;
  return words >> kilobytes && kilobytes > 0;
}

// The node of `memory` with the smallest distance from a node without; distances come in the order of `online`.
int Nearest(const std::string& folder, const std::vector<int>& online, const std::vector<int>& memory) {
  std::istringstream words(FirstLine(folder + "/distance"));
  int nearest = memory.front();
  int smallest = 0;
  int distance = 0;
  for (size_t i = 0; i < online.size() && words >> distance; ++i) {
    if (!std::binary_search(memory.begin(), memory.end(), online[i])) continue;
    if (smallest == 0 || distance < smallest) {
      smallest = distance;
      nearest = online[i];
    }
  }
  return nearest;
}

}  // namespace

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<int> ParseCpuList(const std::string& text) {
  std::vector<int> list;
  std::istringstream fields(text);
  for (std::string field; std::getline(fields, field, ',');) {
    const size_t dash = field.find('-');
    int first = 0;
    int last = 0;
    if (!ParseNumber(std::string_view(field).substr(0, dash), &first)) return {};
    last = first;
    if (dash != std::string::npos && !ParseNumber(std::string_view(field).substr(dash + 1), &last)) return {};
    if (last < first) return {};
    for (int each = first; each <= last; ++each) list.push_back(each);
  }
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

NumaNodes ReadNumaNodes(const std::string& root) {
  const std::string folder = root + "/sys/devices/system/node";
  const auto of_node = [&](int node) { return folder + "/node" + std::to_string(node); };
  const std::vector<int> online = ParseCpuList(FirstLine(folder + "/online"));
  std::vector<int> with_memory = ParseCpuList(FirstLine(folder + "/has_memory"));
  if (with_memory.empty()) {
    std::copy_if(online.begin(), online.end(), std::back_inserter(with_memory),
                 [&](int node) { return HasMemory(of_node(node), node); });
  }
  const std::vector<int> allowed = ParseCpuList(Field(root + "/proc/self/status", "Mems_allowed_list"));
  NumaNodes nodes;
  for (const int node : with_memory) {
    if (allowed.empty() || std::binary_search(allowed.begin(), allowed.end(), node)) nodes.memory.push_back(node);
  }
  if (nodes.memory.empty()) return nodes;
  for (const int node : online) {
    const bool own = std::binary_search(nodes.memory.begin(), nodes.memory.end(), node);
    const int nearest = own ? node : Nearest(of_node(node), online, nodes.memory);
    for (const int cpu : ParseCpuList(FirstLine(of_node(node) + "/cpulist"))) nodes.nearest[cpu] = nearest;
  }
  return nodes;
}

}  // namespace deepinfer
