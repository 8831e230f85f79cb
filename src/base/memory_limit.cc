#include "base/memory_limit.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace deepinfer {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The number after `key`, or -1: "max" is no number and means no limit.
int64_t NumberAfter(const std::string& text, const std::string& key) {
  const size_t at = text.find(key);
  if (at == std::string::npos) return -1;
  const char* begin = text.c_str() + at + key.size();
  char* end = nullptr;
  const long long value = std::strtoll(begin, &end, 10);
  return end == begin ? -1 : value;
}

// Path of this process below a cgroup hierarchy: the part after the line's prefix in /proc/self/cgroup.
std::string GroupOf(const std::string& groups, const std::string& prefix) {
  const size_t at = groups.find(prefix);
  if (at == std::string::npos) return "";
  const size_t begin = at + prefix.size();
  return groups.substr(begin, groups.find('\n', begin) - begin);
}

void TakeSmaller(int64_t bytes, MemoryLimit* limit) {
  if (bytes > 0 && (limit->bytes == 0 || bytes < limit->bytes)) *limit = {bytes, "memory limit of the cgroup"};
}

}  // namespace

MemoryLimit FindMemoryLimit(const std::string& root) {
  MemoryLimit limit;
  const int64_t kib = NumberAfter(ReadFile(root + "/proc/meminfo"), "MemTotal:");
  if (kib > 0) limit = {kib * 1024, "memory of the machine"};
  const std::string groups = ReadFile(root + "/proc/self/cgroup");
  const std::string mount = root + "/sys/fs/cgroup";
  // A container often sees its own group as the root of the hierarchy: both places are looked at.
  for (const std::string& group : {GroupOf(groups, "0::"), std::string()}) {
    TakeSmaller(NumberAfter(ReadFile(mount + group + "/memory.max"), ""), &limit);
  }
  for (const std::string& group : {GroupOf(groups, ":memory:"), std::string()}) {
    TakeSmaller(NumberAfter(ReadFile(mount + "/memory" + group + "/memory.limit_in_bytes"), ""), &limit);
  }
  return limit;
}

}  // namespace deepinfer
