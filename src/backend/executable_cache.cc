#include "backend/executable_cache.h"

#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "ir/text.h"

namespace deepinfer::backend {
namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string Title(const GraphKey& key) {
  return fmt::format("{} graph, {} tokens, {} rows", key.phase, key.tokens, key.rows);
}

// Calls what the caller of the cache handed in; what it throws becomes an error.
template <class Function, class... Args>
std::invoke_result_t<Function, Args...> Guarded(const GraphKey& key, const char* action, const Function& function,
                                                Args&&... args) {
  try {
    return function(std::forward<Args>(args)...);
  } catch (const std::exception& error) {
    return MakeError(ErrorCode::kInternal, Title(key), "{} threw: {}", action, error.what());
  } catch (...) {
    return MakeError(ErrorCode::kInternal, Title(key), "{} threw", action);
  }
}

}  // namespace

struct ExecutableCache::Build {
  const GraphKey& key;
  const RecordFunction& record;
  const CompileFunction& compile;
  const std::vector<std::string>* files;  // entries to compare a miss with; null: those there are now
  BuildReport* report;
};

Result<Executable*> ExecutableCache::Get(const GraphKey& key, const RecordFunction& record,
                                         const CompileFunction& compile) {
  return GetOne(key, record, compile, nullptr);
}

std::shared_ptr<ExecutableCache::Slot> ExecutableCache::SlotFor(const GraphKey& key) {
  const std::lock_guard lock(mutex_);
  if (const auto found = slots_.find(key); found != slots_.end()) return found->second;
  if (locked_.load()) return nullptr;
  order_.push_back(std::make_shared<Slot>());
  slots_.emplace(key, order_.back());
  return order_.back();
}

Result<Executable*> ExecutableCache::GetOne(const GraphKey& key, const RecordFunction& record,
                                            const CompileFunction& compile, const std::vector<std::string>* files) {
  const std::shared_ptr<Slot> slot = SlotFor(key);
  if (slot == nullptr) return RefuseAfterLock(key);
  const std::lock_guard lock(slot->mutex);
  if (slot->executable != nullptr) {
    const std::lock_guard stats_lock(stats_mutex_);
    ++stats_.memory_hits;
    return slot->executable.get();
  }
  if (locked_.load()) return RefuseAfterLock(key);
  slot->report = {key};
  DI_ASSIGN_OR_RETURN(slot->executable, Make({key, record, compile, files, &slot->report}));
  return slot->executable.get();
}

Result<std::vector<Executable*>> ExecutableCache::GetAll(const std::vector<Request>& requests, int threads) {
  // Misses are compared with what was there before, not with what these very requests write.
  const std::vector<std::string> files = disk_.List();
  for (const Request& request : requests) SlotFor(request.key);  // in this order, whichever thread comes first
  std::vector<std::optional<Result<Executable*>>> results(requests.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next.fetch_add(1); i < requests.size(); i = next.fetch_add(1)) {
      results[i] = GetOne(requests[i].key, requests[i].record, requests[i].compile, &files);
    }
  };
  std::vector<std::thread> helpers;
  for (size_t i = 1; i < std::min<size_t>(requests.size(), std::max(threads, 1)); ++i) {
    try {
      helpers.emplace_back(work);
    } catch (const std::system_error&) {
      break;  // no more threads to be had: fewer will do
    }
  }
  work();
  for (std::thread& helper : helpers) helper.join();

  std::vector<Executable*> executables;
  for (const auto& result : results) {
    DI_RETURN_IF_ERROR(*result);
    executables.push_back(**result);
  }
  return executables;
}

Result<ir::Module> ExecutableCache::Record(const Build& build) {
  const auto start = Clock::now();
  auto module = Guarded(build.key, "recording", build.record);
  const std::lock_guard lock(stats_mutex_);
  stats_.record_ms += MillisecondsSince(start);
  return module;
}

Result<std::unique_ptr<Executable>> ExecutableCache::Compile(const Build& build, const ir::Module& module) {
  const auto start = Clock::now();
  auto executable = Guarded(build.key, "compiling", build.compile, module);
  if (executable && *executable == nullptr) {
    return MakeError(ErrorCode::kInternal, Title(build.key), "the backend compiled it to nothing");
  }
  const double ms = MillisecondsSince(start);
  build.report->compile_ms += ms;
  const std::lock_guard lock(stats_mutex_);
  stats_.compile_ms += ms;
  return executable;
}

Result<std::unique_ptr<Executable>> ExecutableCache::FromStoredText(const Build& build, const DiskEntry& entry) {
  DI_ASSIGN_OR_RETURN(const ir::Module module, ir::Parse(entry.text));
  return Compile(build, module);
}

Result<std::unique_ptr<Executable>> ExecutableCache::Make(const Build& build) {
  const auto count_disk_hit = [&] {
    build.report->from_disk = true;
    const std::lock_guard lock(stats_mutex_);
    ++stats_.disk_hits;
  };
  std::string reason = disk_.enabled() ? "" : "no cache folder";
  auto entry = disk_.Load(build.key);
  if (entry && mode_ == WarmStart::kTrust) {
    auto executable = FromStoredText(build, *entry);
    if (executable) {
      count_disk_hit();
      return executable;
    }
    reason = "the stored graph cannot be used: " + executable.error().ToString();
  }

  DI_ASSIGN_OR_RETURN(const ir::Module module, Record(build));
  std::string text = disk_.enabled() ? ir::Print(module) : "";
  if (entry && mode_ == WarmStart::kVerified) {
    if (XXH3_64bits(text.data(), text.size()) == entry->text_hash) {
      DI_ASSIGN_OR_RETURN(auto executable, Compile(build, module));
      count_disk_hit();
      return executable;
    }
    reason = "graph text differs";
  }
  if (!entry && disk_.enabled()) {
    reason = entry.error().code == ErrorCode::kNotFound
                 ? disk_.ExplainMiss(build.key, build.files != nullptr ? *build.files : disk_.List())
                 : entry.error().ToString();
  }
  if (disk_.enabled()) Log(build.key, "not in the cache: " + reason);
  build.report->reason = std::move(reason);

  DI_ASSIGN_OR_RETURN(auto executable, Compile(build, module));
  {
    const std::lock_guard lock(stats_mutex_);
    ++stats_.misses;
  }
  Remember(build, std::move(text), *executable);
  return executable;
}

void ExecutableCache::Remember(const Build& build, std::string text, const Executable& executable) {
  if (!disk_.enabled()) return;
  DiskEntry entry;
  entry.key = build.key;
  entry.text = std::move(text);
  entry.kernels = executable.Describe();
  // A cache that cannot be written costs the next start time, nothing else.
  if (const Status stored = disk_.Store(entry); !stored) Log(build.key, "not stored: " + stored.error().ToString());
}

tl::unexpected<Error> ExecutableCache::RefuseAfterLock(const GraphKey& key) {
  ++compiles_after_ready_;
  std::optional<std::vector<FieldDiff>> nearest;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [other, slot] : slots_) {
      auto diff = Diff(key, other);
      if (!diff.empty() && (!nearest || diff.size() < nearest->size())) nearest = std::move(diff);
    }
  }
  return MakeError(
      ErrorCode::kFailedPrecondition, Title(key), "compile after ready: {}",
      nearest ? "differs from the nearest compiled graph: " + DescribeDiff(*nearest) : "no graph was compiled");
}

ExecutableCache::Stats ExecutableCache::stats() const {
  const std::lock_guard lock(stats_mutex_);
  return stats_;
}

std::vector<ExecutableCache::BuildReport> ExecutableCache::reports() const {
  std::vector<std::shared_ptr<Slot>> slots;
  {
    const std::lock_guard lock(mutex_);
    slots = order_;
  }
  std::vector<BuildReport> reports;
  for (const std::shared_ptr<Slot>& slot : slots) {
    const std::lock_guard lock(slot->mutex);
    if (slot->executable != nullptr) reports.push_back(slot->report);
  }
  return reports;
}

void ExecutableCache::Log(const GraphKey& key, const std::string& message) {
  if (!logger_) return;
  const std::lock_guard lock(logger_mutex_);
  logger_(Title(key) + ": " + message);
}

}  // namespace deepinfer::backend
