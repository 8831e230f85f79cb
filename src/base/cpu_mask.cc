#include "base/cpu_mask.h"

#include <pthread.h>
#include <sched.h>

namespace deepinfer {

CpuMask::CpuMask(const std::vector<int>& cpus) {
  for (const int cpu : cpus) {
    if (cpu < 0 || cpu >= kMaxCpus) continue;
    words_[static_cast<size_t>(cpu / kWordBits)] |= 1UL << (cpu % kWordBits);
  }
}

bool CpuMask::ReadFromThisThread() {
  // Only as many bytes are written as the kernel has CPUs for.
  CpuMask read;
  if (::sched_getaffinity(0, sizeof(read.words_), reinterpret_cast<cpu_set_t*>(read.words_.data())) != 0) return false;
  *this = read;
  return true;
}

bool CpuMask::ApplyToThisThread() const {
  return ::sched_setaffinity(0, sizeof(words_), reinterpret_cast<const cpu_set_t*>(words_.data())) == 0;
}

bool CpuMask::ApplyTo(std::thread* thread) const {
  return ::pthread_setaffinity_np(thread->native_handle(), sizeof(words_),
                                  reinterpret_cast<const cpu_set_t*>(words_.data())) == 0;
}

std::vector<int> CpuMask::Cpus() const {
  std::vector<int> cpus;
  for (int cpu = 0; cpu < kMaxCpus; ++cpu) {
    if ((words_[static_cast<size_t>(cpu / kWordBits)] >> (cpu % kWordBits) & 1) != 0) cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace deepinfer
