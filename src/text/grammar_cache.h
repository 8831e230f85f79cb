// Compiled grammars that are kept for requests to come: the most recently used ones, as many as the limits say. A
// source that several ask for at once is compiled by the first of them while the others wait. Failures are told to
// those who wait and then forgotten. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "base/token_constraint.h"

namespace deepinfer::text {

struct GrammarCacheLimits {
  int64_t grammars = 256;
  int64_t source_bytes = 2 << 20;  // of all together; a longer one is not kept
};

struct GrammarCacheStats {
  int64_t hits = 0;  // found, or compiled by another who asked at the same time
  int64_t misses = 0;
  int64_t grammars = 0;      // kept now
  int64_t source_bytes = 0;  // of those
};

class GrammarCache {
 public:
  using Compiled = Result<std::shared_ptr<const TokenGrammar>>;

  explicit GrammarCache(GrammarCacheLimits limits) : limits_(limits) {}

  // What `compile` made of this source, now or earlier. compile runs without the cache's lock, in the caller's thread.
  Compiled Get(const std::string& source, const std::function<Compiled()>& compile);
  GrammarCacheStats stats() const;

 private:
  struct Entry {
    std::string source;
    bool done = false;
    Compiled grammar = nullptr;
  };
  using Order = std::list<std::shared_ptr<Entry>>;

  void Forget(Order::iterator at);
  void KeepToLimits();

  const GrammarCacheLimits limits_;
  mutable std::mutex mutex_;  // of everything below
  std::condition_variable compiled_;
  Order order_;  // most recently used first; also those that are being compiled
  std::unordered_map<std::string_view, Order::iterator> by_source_;
  GrammarCacheStats stats_;
};

}  // namespace deepinfer::text
