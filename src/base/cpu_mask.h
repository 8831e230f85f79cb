// A set of CPUs as the kernel takes it: read from or given to the calling thread. Plain data; reading and applying
// allocate nothing. Source: sched_setaffinity(2).
#pragma once

#include <array>
#include <climits>
#include <cstddef>
#include <thread>
#include <vector>

namespace deepinfer {

class CpuMask {
 public:
  static constexpr int kMaxCpus = 8192;  // the most that Linux is built for

  CpuMask() = default;
  explicit CpuMask(const std::vector<int>& cpus);  // those outside [0, kMaxCpus) are left out

  // Both say whether the system took part; if not, nothing has changed.
  bool ReadFromThisThread();
  bool ApplyToThisThread() const;
  bool ApplyTo(std::thread* thread) const;

  std::vector<int> Cpus() const;  // ascending

 private:
  static constexpr int kWordBits = CHAR_BIT * sizeof(unsigned long);  // NOLINT: the kernel's word
  std::array<unsigned long, kMaxCpus / kWordBits> words_ = {};        // NOLINT
};

}  // namespace deepinfer
