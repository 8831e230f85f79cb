// Executables by GraphKey: compiled once, kept for the process's life, their plans remembered on disk.
//
// A disk entry is the canonical text after passes. kVerified records the graph and asks that its text be the entry's;
// kTrust compiles the stored text and records nothing. Everything else is a miss: its reason goes to the logger, the
// graph is recorded and compiled, the entry is written. A damaged entry, or a folder that cannot be written, is never
// more than a logged reason. After Lock a miss is an error. Thread-safe; a key asked for by two threads is compiled
// once, and a failure stores nothing. `record` and `compile` may run on any thread, several at once, must not ask for
// their own key, and may throw (kInternal). Returned pointers live as long as the cache. A memory hit does not
// allocate.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/backend.h"
#include "backend/disk_cache.h"
#include "backend/graph_key.h"
#include "base/error.h"
#include "ir/graph.h"

namespace deepinfer::backend {

enum class WarmStart { kVerified, kTrust };

class ExecutableCache {
 public:
  using RecordFunction = std::function<Result<ir::Module>()>;  // records and runs the passes
  using CompileFunction = std::function<Result<std::unique_ptr<Executable>>(const ir::Module&)>;
  using Logger = std::function<void(const std::string&)>;  // called by one thread at a time; may be empty

  struct Request {
    GraphKey key;
    RecordFunction record;
    CompileFunction compile;
  };

  struct Stats {
    int64_t memory_hits = 0;
    int64_t disk_hits = 0;
    int64_t misses = 0;
    double record_ms = 0;  // summed over threads
    double compile_ms = 0;
  };

  // What became of one key that was asked for.
  struct BuildReport {
    GraphKey key;
    bool from_disk = false;
    std::string reason;  // why not; empty if it was
    double compile_ms = 0;
  };

  ExecutableCache(std::string dir, WarmStart mode, Logger logger)
      : disk_(std::move(dir)), mode_(mode), logger_(std::move(logger)) {}

  Result<Executable*> Get(const GraphKey& key, const RecordFunction& record, const CompileFunction& compile);
  // All of them on up to `threads` threads, results in the order of the list. Every one is tried; the error of the
  // first in the list that failed is returned.
  Result<std::vector<Executable*>> GetAll(const std::vector<Request>& requests, int threads);

  // From now on nothing is compiled: a miss is kFailedPrecondition, names the nearest key, and is counted.
  void Lock() { locked_.store(true); }
  int64_t compiles_after_ready() const { return compiles_after_ready_.load(); }
  Stats stats() const;
  // One per executable there is, in the order in which their keys were first asked for; a list counts in its order.
  std::vector<BuildReport> reports() const;

 private:
  struct Slot {
    std::mutex mutex;  // held while it is being compiled
    std::unique_ptr<Executable> executable;
    BuildReport report;
  };
  struct Build;

  // The key's slot, made if there is none; null if there is none and the cache is locked.
  std::shared_ptr<Slot> SlotFor(const GraphKey& key);
  Result<Executable*> GetOne(const GraphKey& key, const RecordFunction& record, const CompileFunction& compile,
                             const std::vector<std::string>* files);
  Result<std::unique_ptr<Executable>> Make(const Build& build);
  Result<ir::Module> Record(const Build& build);
  Result<std::unique_ptr<Executable>> Compile(const Build& build, const ir::Module& module);
  Result<std::unique_ptr<Executable>> FromStoredText(const Build& build, const DiskEntry& entry);
  void Remember(const Build& build, std::string text, const Executable& executable);
  tl::unexpected<Error> RefuseAfterLock(const GraphKey& key);
  void Log(const GraphKey& key, const std::string& message);

  const DiskCache disk_;
  const WarmStart mode_;
  const Logger logger_;
  std::atomic<bool> locked_{false};
  std::atomic<int64_t> compiles_after_ready_{0};

  mutable std::mutex mutex_;  // of slots_ and order_; never taken before a slot's and held with it
  std::unordered_map<GraphKey, std::shared_ptr<Slot>, GraphKeyHash> slots_;
  std::vector<std::shared_ptr<Slot>> order_;
  mutable std::mutex stats_mutex_;
  Stats stats_;
  std::mutex logger_mutex_;
};

}  // namespace deepinfer::backend
