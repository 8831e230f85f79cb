// A line on stderr for work that takes longer than a second; nothing for work that does not. One object per piece of
// work, from construction to destruction. Thread-safe against its own timer only.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace deepinfer::cli {

class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;

 private:
  void Watch();

  std::string what_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable finished_;
  bool done_ = false;
  bool shown_ = false;
  std::thread timer_;
};

}  // namespace deepinfer::cli
