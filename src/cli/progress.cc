#include "cli/progress.h"

#include <fmt/format.h>

#include "cli/output.h"

namespace deepinfer::cli {

Progress::Progress(std::string what, int64_t total)
    : what_(std::move(what)), total_(total), timer_([this] { Watch(); }) {}

void Progress::Watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  std::chrono::seconds pause(1);
  while (!finished_.wait_for(lock, pause, [this] { return done_; })) {
    if (shown_ && total_ == 0) continue;
    if (total_ > 0) {
      SayErr(fmt::format("{} ... {} of {}", what_, done_count_.load(), total_));
    } else {
      SayErr(fmt::format("{} ...", what_));
    }
    shown_ = true;
    pause = std::chrono::seconds(5);
  }
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
  SayErr(fmt::format("{}: {:.1f} s", what_, elapsed.count()));
}

}  // namespace deepinfer::cli
