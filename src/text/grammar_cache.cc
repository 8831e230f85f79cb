#include "text/grammar_cache.h"

namespace deepinfer::text {

GrammarCache::Compiled GrammarCache::Get(const std::string& source, const std::function<Compiled()>& compile) {
  std::unique_lock lock(mutex_);
  if (const auto found = by_source_.find(source); found != by_source_.end()) {
    ++stats_.hits;
    order_.splice(order_.begin(), order_, found->second);
    const std::shared_ptr<Entry> entry = *found->second;
    compiled_.wait(lock, [&entry] { return entry->done; });
    return entry->grammar;
  }
  ++stats_.misses;
  const auto entry = std::make_shared<Entry>();
  entry->source = source;
  order_.push_front(entry);
  const Order::iterator at = order_.begin();
  by_source_[entry->source] = at;
  lock.unlock();
  Compiled grammar = compile();
  lock.lock();
  entry->grammar = std::move(grammar);
  entry->done = true;
  const auto bytes = static_cast<int64_t>(source.size());
  if (entry->grammar && bytes <= limits_.source_bytes) {
    ++stats_.grammars;
    stats_.source_bytes += bytes;
    KeepToLimits();
  } else {
    by_source_.erase(entry->source);
    order_.erase(at);
  }
  compiled_.notify_all();
  return entry->grammar;
}

GrammarCacheStats GrammarCache::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void GrammarCache::Forget(Order::iterator at) {
  --stats_.grammars;
  stats_.source_bytes -= static_cast<int64_t>((*at)->source.size());
  by_source_.erase((*at)->source);
  order_.erase(at);
}

// The least recently used go first. What is being compiled stays: others wait for it.
void GrammarCache::KeepToLimits() {
  for (auto at = order_.end(); at != order_.begin();) {
    if (stats_.grammars <= limits_.grammars && stats_.source_bytes <= limits_.source_bytes) return;
    --at;
    if (!(*at)->done) continue;
    const auto gone = at++;
    Forget(gone);
  }
}

}  // namespace deepinfer::text
