#include "cli/bandwidth.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "base/thread_team.h"

namespace deepinfer::cli {
namespace {

constexpr int64_t kLine = 64;
constexpr int64_t kPage = 4096;
// Far enough ahead that a line is there in time: at 10 GB/s and 100 ns of latency a core has 1 KiB under way.
constexpr int64_t kAhead = 2048;

class Region {
 public:
  explicit Region(size_t bytes, bool huge) : bytes_(bytes) {
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ != MAP_FAILED) ::madvise(data_, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  }
  ~Region() {
    if (data_ != MAP_FAILED) ::munmap(data_, bytes_);
  }
  Region(const Region&) = delete;
  std::byte* data() const { return data_ == MAP_FAILED ? nullptr : static_cast<std::byte*>(data_); }

 private:
  size_t bytes_;
  void* data_;
};

// Eight independent sums, so that the adds wait for memory and not for each other.
uint64_t Sum(const std::byte* begin, const std::byte* end, bool prefetch) {
  uint64_t sums[8] = {};
  for (const std::byte* at = begin; at < end; at += kLine) {
    if (prefetch) __builtin_prefetch(at + kAhead);
    uint64_t line[8];
    std::memcpy(line, at, kLine);
    for (int i = 0; i < 8; ++i) sums[i] += line[i];
  }
  uint64_t sum = 0;
  for (const uint64_t each : sums) sum += each;
  return sum;
}

Result<double> Measure(ThreadTeam* team, int64_t bytes, int rounds, bool tuned) {
  const Region region(static_cast<size_t>(bytes), tuned);
  std::byte* data = region.data();
  if (data == nullptr) return MakeError(ErrorCode::kResourceExhausted, "bandwidth", "no memory for {} bytes", bytes);
  // Written by the thread that reads it later: pages lie where they are used.
  auto fill = [&](int member, int members) {
    const Range part = SplitRange(bytes, kPage, member, members);
    std::memset(data + part.begin, member + 1, static_cast<size_t>(part.end - part.begin));
  };
  team->Run(fill);
  std::atomic<uint64_t> total{0};
  auto read = [&](int member, int members) {
    const Range part = SplitRange(bytes, kPage, member, members);
    total += Sum(data + part.begin, data + part.end, tuned);
  };
  double best = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    team->Run(read);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(bytes) / elapsed.count());
  }
  return total.load() == 0 ? 0.0 : best;  // reading the sum keeps the loops from being left out
}

}  // namespace

Result<Bandwidth> MeasureBandwidth(const TeamPlan& plan, int64_t bytes, int rounds) {
  ThreadTeam team(plan.threads, plan.placement.cpus);
  Bandwidth bandwidth;
  DI_ASSIGN_OR_RETURN(bandwidth.plain, Measure(&team, bytes, rounds, /*tuned=*/false));
  DI_ASSIGN_OR_RETURN(bandwidth.tuned, Measure(&team, bytes, rounds, /*tuned=*/true));
  return bandwidth;
}

}  // namespace deepinfer::cli
