// How much memory this process may use: the machine's, or less where a cgroup says so. Read once per call; thread-safe.
#pragma once

#include <cstdint>
#include <string>

namespace deepinfer {

struct MemoryLimit {
  int64_t bytes = 0;   // 0: unknown
  std::string source;  // "memory of the machine", "memory limit of the cgroup"
};

// root: "" for the real system; tests give a folder that holds proc/ and sys/.
MemoryLimit FindMemoryLimit(const std::string& root = "");

}  // namespace deepinfer
