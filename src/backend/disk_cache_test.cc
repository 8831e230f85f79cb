#include "backend/disk_cache.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "backend/cache_files.h"
#include "backend/test_util.h"
#include "ir/text.h"

namespace deepinfer::backend {
namespace {

DiskEntry SmallEntry(int64_t tokens = 1) {
  DiskEntry entry;
  entry.key = SmallKey(tokens);
  entry.text = "func @step() {}\n";
  entry.kernels = {"gemv_q4_1_avx2", "a \"quoted\" line"};
  return entry;
}

TEST(DiskCacheTest, WhatIsStoredIsLoaded) {
  const TempDir dir;
  const DiskCache cache(dir.path());
  ASSERT_TRUE(cache.Store(SmallEntry()));
  const auto loaded = cache.Load(SmallKey());
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  EXPECT_EQ(loaded->key, SmallKey());
  EXPECT_EQ(loaded->text, SmallEntry().text);
  EXPECT_EQ(loaded->kernels, SmallEntry().kernels);
  EXPECT_EQ(cache.List().size(), 1u);
  const auto other = cache.Load(SmallKey(2));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kNotFound);
}

TEST(DiskCacheTest, TheStoredHashIsThatOfTheGraph) {
  const TempDir dir;
  const DiskCache cache(dir.path());
  const auto module = SmallModule();
  ASSERT_TRUE(module);
  DiskEntry entry = SmallEntry();
  entry.text = ir::Print(*module);
  ASSERT_TRUE(cache.Store(entry));
  const auto loaded = cache.Load(entry.key);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->text_hash, ir::CanonicalHash(*module));
}

TEST(DiskCacheTest, AnEmptyFolderNameTurnsItOff) {
  const DiskCache cache("");
  EXPECT_FALSE(cache.enabled());
  EXPECT_TRUE(cache.Store(SmallEntry()));
  EXPECT_FALSE(cache.Load(SmallKey()));
  EXPECT_TRUE(cache.List().empty());
}

TEST(DiskCacheTest, AChangeOfAnyByteIsAnErrorWithAReason) {
  const TempDir dir;
  const DiskCache cache(dir.path());
  ASSERT_TRUE(cache.Store(SmallEntry()));
  const std::string path = cache.PathOf(SmallKey());
  const std::string good = ReadFile(path);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    WriteFile(path, bad);
    const auto loaded = cache.Load(SmallKey());
    ASSERT_FALSE(loaded) << "byte " << i;
    EXPECT_EQ(loaded.error().code, ErrorCode::kDataLoss);
    EXPECT_FALSE(loaded.error().message.empty());
    if (i % 16 == 0) {
      EXPECT_EQ(cache.ExplainMiss(SmallKey(2), cache.List()), "no entry yet");
    }
  }
  WriteFile(path, good);
  EXPECT_TRUE(cache.Load(SmallKey()));
}

TEST(DiskCacheTest, TruncationAndAnythingAppendedIsAnError) {
  const TempDir dir;
  const DiskCache cache(dir.path());
  ASSERT_TRUE(cache.Store(SmallEntry()));
  const std::string path = cache.PathOf(SmallKey());
  const std::string good = ReadFile(path);
  for (size_t size = 0; size < good.size(); size += size < 64 ? 1 : 7) {
    WriteFile(path, good.substr(0, size));
    const auto loaded = cache.Load(SmallKey());
    ASSERT_FALSE(loaded) << size;
    EXPECT_EQ(loaded.error().code, ErrorCode::kDataLoss);
  }
  WriteFile(path, good + "x");
  EXPECT_FALSE(cache.Load(SmallKey()));
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_FALSE(cache.Load(SmallKey()));
  EXPECT_FALSE(cache.Store(SmallEntry()));
}

TEST(DiskCacheTest, AnEntryOfAnotherKeyIsNoHit) {
  const TempDir dir;
  const DiskCache cache(dir.path());
  ASSERT_TRUE(cache.Store(SmallEntry(2)));
  std::filesystem::rename(cache.PathOf(SmallKey(2)), cache.PathOf(SmallKey(1)));
  const auto loaded = cache.Load(SmallKey(1));
  ASSERT_FALSE(loaded);
  EXPECT_NE(loaded.error().message.find("tokens is 1, there 2"), std::string::npos) << loaded.error().message;
}

TEST(DiskCacheTest, AMissIsExplainedByTheNearestEntry) {
  const TempDir dir;
  const DiskCache cache(dir.path());
  EXPECT_EQ(cache.ExplainMiss(SmallKey(), cache.List()), "no entry yet");
  DiskEntry near = SmallEntry(), far = SmallEntry();
  near.key.target = "avx512";
  far.key.target = "amx";
  far.key.model = "other";
  ASSERT_TRUE(cache.Store(far));
  ASSERT_TRUE(cache.Store(near));
  EXPECT_EQ(cache.ExplainMiss(SmallKey(), cache.List()),
            "differs from the nearest entry: target is avx2, there avx512");
}

TEST(DiskCacheTest, LoadingMarksTheEntryAsUsed) {
  const TempDir dir;
  const DiskCache cache(dir.path());
  for (const int64_t tokens : {1, 2}) ASSERT_TRUE(cache.Store(SmallEntry(tokens)));
  const auto old = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  for (const std::string& path : cache.List()) std::filesystem::last_write_time(path, old);
  ASSERT_TRUE(cache.Load(SmallKey(2)));
  ASSERT_TRUE(PruneCache(dir.path(), static_cast<int64_t>(std::filesystem::file_size(cache.PathOf(SmallKey(2))))));
  EXPECT_EQ(cache.List(), std::vector<std::string>{cache.PathOf(SmallKey(2))});
}

TEST(DiskCacheTest, ProcessesThatWriteTheSameEntryAtOnceNeverShowABrokenOne) {
  const TempDir dir;
  const DiskCache cache(dir.path());
  constexpr int kProcesses = 4;
  constexpr int kRounds = 12;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      int failures = 0;
      for (int round = 0; round < kRounds; ++round) {
        DiskEntry entry = SmallEntry();
        entry.text = std::string(static_cast<size_t>(1000 * (process + 1) + round), static_cast<char>('a' + process));
        if (!cache.Store(entry)) ++failures;
        const auto loaded = cache.Load(SmallKey());
        if (!loaded || loaded->text.find_first_not_of(loaded->text[0]) != std::string::npos) ++failures;
      }
      ::_exit(failures == 0 ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  EXPECT_TRUE(cache.Load(SmallKey()));
  EXPECT_EQ(dir.Names().size(), 2u);  // the lock and the entry: no temporary file is left
}

}  // namespace
}  // namespace deepinfer::backend
