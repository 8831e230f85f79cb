// A line on stderr for work that takes longer than a second, and one every five seconds after it where the work says
// how far it is; nothing for work that does not. One object per piece of work, from construction to destruction.
// Advance may be called from one thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace deepinfer::cli {

class Progress {
 public:
  explicit Progress(std::string what, int64_t total = 0);
  ~Progress();
  Progress(const Progress&) = delete;

  void Advance(int64_t count) { done_count_ += count; }

 private:
  void Watch();

  std::string what_;
  int64_t total_;
  std::atomic<int64_t> done_count_{0};
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable finished_;
  bool done_ = false;
  bool shown_ = false;
  std::thread timer_;
};

}  // namespace deepinfer::cli
