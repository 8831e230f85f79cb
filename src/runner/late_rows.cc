#include "runner/late_rows.h"

namespace deepinfer::runner {

void LateRows::Clear() {
  const std::lock_guard lock(mutex_);
  rows.clear();
  published_ = false;
}

void LateRows::Publish() {
  {
    const std::lock_guard lock(mutex_);
    published_ = true;
  }
  changed_.notify_all();
}

const std::vector<LateRow>& LateRows::Await() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return published_; });
  return rows;
}

}  // namespace deepinfer::runner
