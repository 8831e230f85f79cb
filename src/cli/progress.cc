#include "cli/progress.h"

#include <fmt/format.h>

#include <cstdio>

namespace deepinfer::cli {

Progress::Progress(std::string what) : what_(std::move(what)), timer_([this] { Watch(); }) {}

void Progress::Watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (finished_.wait_for(lock, std::chrono::seconds(1), [this] { return done_; })) return;
  fmt::print(stderr, "{} ...\n", what_);
  shown_ = true;
}

Progress::~Progress() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    done_ = true;
  }
  finished_.notify_all();
  timer_.join();
  if (!shown_) return;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  fmt::print(stderr, "{}: {:.1f} s\n", what_, elapsed.count());
}

}  // namespace deepinfer::cli
