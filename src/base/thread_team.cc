#include "base/thread_team.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "base/cpu_mask.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace deepinfer {
namespace {

using Clock = std::chrono::steady_clock;

// Longer than the host's work between two steps' launches, shorter than what a scheduler's tick would cost somebody
// else.
constexpr auto kSpinTime = std::chrono::microseconds(40);
constexpr int kPausesPerClockRead = 32;

inline void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until done() or for kSpinTime; says whether done() came true.
template <class Done>
bool SpinUntil(Done done) {
  for (int i = 0; i < kPausesPerClockRead; ++i) {
    if (done()) return true;
    Pause();
  }
  const auto deadline = Clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (done()) return true;
      Pause();
    }
  } while (Clock::now() < deadline);
  return false;
}

// Spins, then gives the core away between looks: on an oversubscribed machine the one waited for may need it.
template <class Done>
void SpinThenYieldUntil(Done done) {
  while (!SpinUntil(done)) {
    for (int i = 0; i < 16; ++i) {
      if (done()) return;
      std::this_thread::yield();
    }
  }
}

// Round to nearest, all exceptions masked, FTZ and DAZ while it lives; the old state afterwards. A result must not
// depend on which thread computed it, so the whole register is set, not only the two bits.
class KernelFloatMode {
 public:
#if defined(__x86_64__)
  KernelFloatMode() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80u | 0x8040u); }
  ~KernelFloatMode() { _mm_setcsr(saved_); }
#elif defined(__aarch64__)
  KernelFloatMode() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" ::"r"(uint64_t{1} << 24));
  }
  ~KernelFloatMode() { asm volatile("msr fpcr, %0" ::"r"(saved_)); }
#else
  KernelFloatMode() = default;
#endif
  KernelFloatMode(const KernelFloatMode&) = delete;
  KernelFloatMode& operator=(const KernelFloatMode&) = delete;

 private:
#if defined(__x86_64__)
  unsigned saved_;
#elif defined(__aarch64__)
  uint64_t saved_;
#endif
};

// The calling thread has these CPUs while it lives, its own afterwards. Null: it keeps its own.
class PinnedWhile {
 public:
  explicit PinnedWhile(const CpuMask* cpus) {
    if (cpus != nullptr) pinned_ = own_.ReadFromThisThread() && cpus->ApplyToThisThread();
  }
  ~PinnedWhile() {
    if (pinned_) own_.ApplyToThisThread();
  }
  PinnedWhile(const PinnedWhile&) = delete;
  PinnedWhile& operator=(const PinnedWhile&) = delete;

 private:
  CpuMask own_;
  bool pinned_ = false;
};

}  // namespace

struct ThreadTeam::State {
  int members = 1;
  std::vector<std::thread> threads;
  std::optional<CpuMask> caller;  // what the caller is pinned to
  bool pinned = false;

  // Written by the caller before `epoch` is raised, read by the members after they saw it.
  const TeamFunction* function = nullptr;
  bool stop = false;

  alignas(64) std::atomic<uint32_t> epoch{0};
  alignas(64) std::atomic<int> running{0};
  alignas(64) std::atomic<int> arrived{0};
  alignas(64) std::atomic<uint32_t> barrier_epoch{0};

  alignas(64) std::atomic<int> parked{0};
  std::mutex mutex;
  std::condition_variable wake;

  void Publish() {
    // Sequentially consistent on both sides: either this sees the member in `parked`, or the member, after entering
    // `parked`, sees the new epoch. Taking the lock makes sure that it is in wait() and not on its way there.
    epoch.fetch_add(1, std::memory_order_seq_cst);
    if (parked.load(std::memory_order_seq_cst) == 0) return;
    {
      std::lock_guard<std::mutex> lock(mutex);
    }
    wake.notify_all();
  }

  void AwaitEpoch(uint32_t seen) {
    if (SpinUntil([&] { return epoch.load(std::memory_order_acquire) != seen; })) return;
    std::unique_lock<std::mutex> lock(mutex);
    parked.fetch_add(1, std::memory_order_seq_cst);
    wake.wait(lock, [&] { return epoch.load(std::memory_order_seq_cst) != seen; });
    parked.fetch_sub(1, std::memory_order_seq_cst);
  }

  void MemberLoop(int member) {
    KernelFloatMode mode;
    for (uint32_t seen = 0;; ++seen) {
      AwaitEpoch(seen);
      if (stop) return;
      (*function)(member, members);
      running.fetch_sub(1, std::memory_order_release);
    }
  }
};

ThreadTeam::ThreadTeam(int members, const std::vector<std::vector<int>>& cpus) : state_(std::make_unique<State>()) {
  // The threads read `members` only after the first epoch, so a machine that gives fewer than asked is no error.
  State* state = state_.get();
  const int wanted = std::max(members, 1);
  state->threads.reserve(wanted - 1);
  for (int member = 1; member < wanted; ++member) {
    try {
      state->threads.emplace_back([state, member] { state->MemberLoop(member); });
    } catch (const std::system_error&) {
      break;
    }
  }
  state->members = static_cast<int>(state->threads.size()) + 1;
  if (cpus.size() != static_cast<size_t>(state->members)) return;
  state->caller.emplace(cpus[0]);
  state->pinned = true;
  for (size_t i = 0; i < state->threads.size(); ++i) {
    state->pinned = CpuMask(cpus[i + 1]).ApplyTo(&state->threads[i]) && state->pinned;
  }
}

ThreadTeam::~ThreadTeam() {
  state_->stop = true;
  state_->Publish();
  for (std::thread& thread : state_->threads) thread.join();
}

int ThreadTeam::members() const {
  return state_->members;
}

bool ThreadTeam::pinned() const {
  return state_->pinned;
}

void ThreadTeam::Run(TeamFunction function) {
  KernelFloatMode mode;
  State& state = *state_;
  const PinnedWhile pinned(state.caller ? &*state.caller : nullptr);
  if (state.members == 1) {
    function(0, 1);
    return;
  }
  state.function = &function;
  state.running.store(state.members - 1, std::memory_order_relaxed);
  state.Publish();
  function(0, state.members);
  SpinThenYieldUntil([&] { return state.running.load(std::memory_order_acquire) == 0; });
}

void ThreadTeam::Barrier() {
  State& state = *state_;
  if (state.members == 1) return;
  const uint32_t seen = state.barrier_epoch.load(std::memory_order_acquire);
  if (state.arrived.fetch_add(1, std::memory_order_acq_rel) == state.members - 1) {
    state.arrived.store(0, std::memory_order_relaxed);
    state.barrier_epoch.fetch_add(1, std::memory_order_release);
    return;
  }
  SpinThenYieldUntil([&] { return state.barrier_epoch.load(std::memory_order_acquire) != seen; });
}

Range SplitRange(int64_t total, int64_t grain, int member, int members) {
  grain = std::max<int64_t>(grain, 1);
  const int64_t grains = (total + grain - 1) / grain;
  const int64_t each = grains / members;
  const int64_t extra = grains % members;
  const int64_t begin = member * each + std::min<int64_t>(member, extra);
  const int64_t end = begin + each + (member < extra ? 1 : 0);
  return {std::min(begin * grain, total), std::min(end * grain, total)};
}

}  // namespace deepinfer
