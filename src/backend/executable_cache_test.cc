#include "backend/executable_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "backend/test_util.h"
#include "ir/text.h"

namespace deepinfer::backend {
namespace {

// One start of a program: a cache with functions that count their calls and a log.
struct Start {
  explicit Start(const std::string& dir, WarmStart mode = WarmStart::kVerified)
      : cache(dir, mode, [this](const std::string& line) { log += line + "\n"; }) {}

  ExecutableCache::RecordFunction Record(int64_t tokens = 1, double constant = 2.0) {
    return [this, tokens, constant] {
      ++records;
      return SmallModule(tokens, constant);
    };
  }
  ExecutableCache::CompileFunction Compile() {
    return [this](const ir::Module& module) -> Result<std::unique_ptr<Executable>> {
      ++compiles;
      const std::lock_guard lock(mutex);
      texts.push_back(ir::Print(module));
      return std::make_unique<FakeExecutable>();
    };
  }
  Result<Executable*> Get(const GraphKey& key = SmallKey(), double constant = 2.0) {
    return cache.Get(key, Record(key.tokens, constant), Compile());
  }

  std::string log;
  std::atomic<int> records{0};
  std::atomic<int> compiles{0};
  std::mutex mutex;
  std::vector<std::string> texts;
  ExecutableCache cache;
};

ExecutableCache::CompileFunction FailingCompile() {
  return [](const ir::Module&) -> Result<std::unique_ptr<Executable>> {
    return MakeError(ErrorCode::kUnsupported, "test", "cannot compile");
  };
}

TEST(ExecutableCacheTest, ASecondGetIsAMemoryHit) {
  Start start("");
  const auto first = start.Get();
  ASSERT_TRUE(first);
  const auto second = start.Get();
  ASSERT_TRUE(second);
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(start.compiles, 1);
  EXPECT_EQ(start.cache.stats().memory_hits, 1);
  EXPECT_EQ(start.cache.stats().misses, 1);
  EXPECT_EQ(start.log, "");  // no disk, no disk miss
}

TEST(ExecutableCacheTest, ARestartInVerifiedModeRecordsAndHits) {
  const TempDir dir;
  Start cold(dir.path());
  ASSERT_TRUE(cold.Get());
  EXPECT_NE(cold.log.find("no entry yet"), std::string::npos) << cold.log;
  Start warm(dir.path());
  ASSERT_TRUE(warm.Get());
  EXPECT_EQ(warm.log, "");
  EXPECT_EQ(warm.records, 1);
  EXPECT_EQ(warm.cache.stats().misses, 0);
  EXPECT_EQ(warm.cache.stats().disk_hits, 1);
  EXPECT_EQ(warm.texts, cold.texts);
}

TEST(ExecutableCacheTest, ARestartInTrustModeRecordsNothingAndCompilesTheSameGraph) {
  const TempDir dir;
  Start cold(dir.path(), WarmStart::kTrust);
  ASSERT_TRUE(cold.Get());
  Start warm(dir.path(), WarmStart::kTrust);
  ASSERT_TRUE(warm.Get());
  EXPECT_EQ(warm.records, 0);
  EXPECT_EQ(warm.compiles, 1);
  EXPECT_EQ(warm.cache.stats().disk_hits, 1);
  EXPECT_EQ(warm.cache.stats().misses, 0);
  EXPECT_EQ(warm.texts, cold.texts);
}

TEST(ExecutableCacheTest, AChangedFieldIsAMissThatNamesIt) {
  const TempDir dir;
  ASSERT_TRUE(Start(dir.path()).Get());
  for (const WarmStart mode : {WarmStart::kVerified, WarmStart::kTrust}) {
    Start warm(dir.path(), mode);
    GraphKey key = SmallKey();
    key.build = mode == WarmStart::kTrust ? "gnu-66" : "gnu-77";
    ASSERT_TRUE(warm.Get(key));
    EXPECT_EQ(warm.cache.stats().misses, 1);
    EXPECT_EQ(warm.records, 1);
    EXPECT_NE(warm.log.find("build is " + key.build + ", there gnu-"), std::string::npos) << warm.log;
    EXPECT_EQ(warm.log.find("tokens is"), std::string::npos) << warm.log;
  }
}

TEST(ExecutableCacheTest, VerifiedModeSeesAChangedGraphAndOverwritesTheEntry) {
  const TempDir dir;
  ASSERT_TRUE(Start(dir.path()).Get());
  Start changed(dir.path());
  ASSERT_TRUE(changed.Get(SmallKey(), 3.0));
  EXPECT_NE(changed.log.find("graph text differs"), std::string::npos) << changed.log;
  EXPECT_EQ(changed.cache.stats().misses, 1);
  EXPECT_EQ(changed.compiles, 1);
  Start again(dir.path());
  ASSERT_TRUE(again.Get(SmallKey(), 3.0));
  EXPECT_EQ(again.cache.stats().disk_hits, 1);
}

TEST(ExecutableCacheTest, ADamagedEntryIsRebuiltWithAReason) {
  const TempDir dir;
  ASSERT_TRUE(Start(dir.path()).Get());
  const std::string path = DiskCache(dir.path()).PathOf(SmallKey());
  const std::string good = ReadFile(path);
  for (const WarmStart mode : {WarmStart::kVerified, WarmStart::kTrust}) {
    for (size_t i = 0; i < good.size(); i += 31) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 0x20);
      WriteFile(path, i % 2 == 0 ? bad : good.substr(0, i));
      Start warm(dir.path(), mode);
      ASSERT_TRUE(warm.Get());
      EXPECT_EQ(warm.cache.stats().misses, 1);
      EXPECT_NE(warm.log.find(path), std::string::npos) << warm.log;
      EXPECT_EQ(ReadFile(path), good) << "byte " << i;
    }
  }
}

TEST(ExecutableCacheTest, AnEntryThatIsWholeButNoGraphIsRebuilt) {
  const TempDir dir;
  DiskEntry entry;
  entry.key = SmallKey();
  entry.text = "no graph";
  ASSERT_TRUE(DiskCache(dir.path()).Store(entry));
  Start warm(dir.path(), WarmStart::kTrust);
  ASSERT_TRUE(warm.Get());
  EXPECT_EQ(warm.records, 1);
  EXPECT_NE(warm.log.find("the stored graph cannot be used"), std::string::npos) << warm.log;
}

TEST(ExecutableCacheTest, AFolderThatCannotBeWrittenCostsOnlyALine) {
  const TempDir dir;
  WriteFile(dir.path() + "/plain", "a file");
  Start start(dir.path() + "/plain");
  ASSERT_TRUE(start.Get());
  EXPECT_NE(start.log.find("not stored"), std::string::npos) << start.log;
}

TEST(ExecutableCacheTest, AfterLockAMissIsAnErrorAndCounted) {
  Start start("");
  ASSERT_TRUE(start.Get());
  start.cache.Lock();
  ASSERT_TRUE(start.Get());
  EXPECT_EQ(start.cache.compiles_after_ready(), 0);
  const auto refused = start.Get(SmallKey(2));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(refused.error().message.find("compile after ready"), std::string::npos);
  EXPECT_NE(refused.error().message.find("tokens is 2, there 1"), std::string::npos) << refused.error().message;
  EXPECT_EQ(start.cache.compiles_after_ready(), 1);
  EXPECT_EQ(start.records, 1);
  EXPECT_EQ(start.compiles, 1);
}

TEST(ExecutableCacheTest, AfterLockEvenADiskHitIsAMiss) {
  const TempDir dir;
  ASSERT_TRUE(Start(dir.path()).Get());
  Start start(dir.path(), WarmStart::kTrust);
  start.cache.Lock();
  EXPECT_FALSE(start.Get());
  EXPECT_EQ(start.cache.compiles_after_ready(), 1);
  EXPECT_EQ(start.compiles, 0);
}

TEST(ExecutableCacheTest, AFailureStoresNothingAndTheNextGetTriesAgain) {
  const TempDir dir;
  Start start(dir.path());
  const auto failed = start.cache.Get(SmallKey(), start.Record(), FailingCompile());
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kUnsupported);
  const auto throwing = start.cache.Get(
      SmallKey(), []() -> Result<ir::Module> { throw std::runtime_error("on purpose"); }, start.Compile());
  ASSERT_FALSE(throwing);
  EXPECT_EQ(throwing.error().code, ErrorCode::kInternal);
  EXPECT_NE(throwing.error().message.find("on purpose"), std::string::npos);
  const auto nothing = start.cache.Get(SmallKey(), start.Record(),
                                       [](const ir::Module&) { return Result<std::unique_ptr<Executable>>(nullptr); });
  EXPECT_FALSE(nothing);
  EXPECT_TRUE(DiskCache(dir.path()).List().empty());
  ASSERT_TRUE(start.Get());
  EXPECT_EQ(start.cache.stats().misses, 1);
}

TEST(ExecutableCacheTest, GetAllKeepsTheOrderAndCompilesEachKeyOnce) {
  const TempDir dir;
  Start cold(dir.path());
  std::vector<ExecutableCache::Request> requests;
  for (const int64_t tokens : {1, 2, 4, 8, 2, 1}) {
    requests.push_back({SmallKey(tokens), cold.Record(tokens), cold.Compile()});
  }
  const auto all = cold.cache.GetAll(requests, 4);
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 6u);
  EXPECT_EQ(cold.compiles, 4);
  EXPECT_EQ((*all)[0], (*all)[5]);
  EXPECT_EQ((*all)[1], (*all)[4]);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ((*all)[i], *cold.Get(requests[i].key));
  // Nothing is compared with what the same start has written.
  EXPECT_EQ(cold.log.find("nearest"), std::string::npos) << cold.log;

  Start warm(dir.path());
  for (auto& request : requests) request = {request.key, warm.Record(request.key.tokens), warm.Compile()};
  ASSERT_TRUE(warm.cache.GetAll(requests, 1));
  EXPECT_EQ(warm.cache.stats().disk_hits, 4);
  EXPECT_EQ(warm.log, "");
}

TEST(ExecutableCacheTest, ReportsSayInTheOrderOfTheRequestsWhatBecameOfEachKey) {
  const TempDir dir;
  const auto all = [&](Start* start, const std::vector<int64_t>& tokens) {
    std::vector<ExecutableCache::Request> requests;
    for (const int64_t count : tokens)
      requests.push_back({SmallKey(count), start->Record(count, 3.0), start->Compile()});
    ASSERT_TRUE(start->cache.GetAll(requests, 4));
  };
  Start cold(dir.path());
  EXPECT_TRUE(cold.cache.reports().empty());
  all(&cold, {4, 1, 2});
  Start warm(dir.path());
  all(&warm, {2, 8, 1, 4});
  const auto first = cold.cache.reports(), second = warm.cache.reports();
  ASSERT_EQ(first.size(), 3u);
  ASSERT_EQ(second.size(), 4u);
  const int64_t cold_order[] = {4, 1, 2}, warm_order[] = {2, 8, 1, 4};
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].key.tokens, cold_order[i]);
    EXPECT_FALSE(first[i].from_disk);
    EXPECT_NE(first[i].reason.find("no entry yet"), std::string::npos) << first[i].reason;
  }
  for (size_t i = 0; i < second.size(); ++i) {
    EXPECT_EQ(second[i].key.tokens, warm_order[i]);
    EXPECT_EQ(second[i].from_disk, warm_order[i] != 8);
    EXPECT_EQ(second[i].reason.empty(), second[i].from_disk) << second[i].reason;
    EXPECT_GE(second[i].compile_ms, 0);
  }
  Start none("");
  ASSERT_TRUE(none.Get());
  ASSERT_EQ(none.cache.reports().size(), 1u);
  EXPECT_EQ(none.cache.reports()[0].reason, "no cache folder");
  const GraphKey failing = SmallKey(16);
  EXPECT_FALSE(none.cache.Get(failing, none.Record(16), FailingCompile()));
  EXPECT_EQ(none.cache.reports().size(), 1u) << "there is no executable to report on";
}

TEST(ExecutableCacheTest, GetAllReportsTheFirstErrorAndFinishesTheOthers) {
  Start start("");
  std::vector<ExecutableCache::Request> requests;
  for (const int64_t tokens : {1, 2, 3, 4}) {
    requests.push_back({SmallKey(tokens), start.Record(tokens), start.Compile()});
  }
  requests[1].compile = FailingCompile();
  requests[2].record = []() -> Result<ir::Module> { throw std::runtime_error("on purpose"); };
  const auto all = start.cache.GetAll(requests, 2);
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(start.compiles, 2);
  EXPECT_TRUE(start.cache.GetAll({}, 2));
}

TEST(ExecutableCacheTest, ThreadsThatWantTheSameKeyShareOneCompile) {
  Start start("");
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round) good += start.Get(SmallKey(1 + (i + round) % 3)).has_value() ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 400);
  EXPECT_EQ(start.compiles, 3);
  EXPECT_EQ(start.cache.stats().memory_hits, 397);
}

}  // namespace
}  // namespace deepinfer::backend
