#include "backend/cache_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fstream>

#include "backend/test_util.h"

namespace deepinfer::backend {
namespace {

using Names = std::vector<std::string>;

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

Status WriteWhole(const std::string& path, const std::string& text) {
  DI_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  DI_RETURN_IF_ERROR(file.Write(BytesOf(text)));
  return file.Commit();
}

void SetAge(const std::string& path, int64_t seconds_since_epoch) {
  const timespec times[2] = {{seconds_since_epoch, 0}, {seconds_since_epoch, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

TEST(CacheFilesTest, AFileAppearsWholeAndReplacesTheOldOne) {
  const TempDir dir;
  const std::string path = dir.path() + "/sub/a.graph";
  ASSERT_TRUE(WriteWhole(path, "one"));
  EXPECT_EQ(ReadFile(path), "one");
  auto file = AtomicFile::Create(path);
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->Write(BytesOf("two")));
  ASSERT_TRUE(file->WriteZeros(5000));
  EXPECT_EQ(ReadFile(path), "one");
  ASSERT_TRUE(file->Commit());
  EXPECT_EQ(ReadFile(path), "two" + std::string(5000, '\0'));
}

TEST(CacheFilesTest, WithoutCommitNothingIsLeft) {
  const TempDir dir;
  {
    auto file = AtomicFile::Create(dir.path() + "/a.graph");
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->Write(BytesOf("half")));
    EXPECT_EQ(dir.Names().size(), 2u);
  }
  EXPECT_EQ(dir.Names(), Names{".lock"});
}

TEST(CacheFilesTest, AFileThatOnlyLooksTemporaryIsLeftAlone) {
  const TempDir dir;
  const Names foreign = {"a.graph.tmp-old", "b.txt.tmp-1-2", "notes.tmp-", "notes.tmp-3-4"};
  for (const std::string& name : foreign) ASSERT_TRUE(std::ofstream(dir.path() + "/" + name) << "mine");
  ASSERT_TRUE(WriteWhole(dir.path() + "/a.graph", "whole"));
  for (const std::string& name : foreign) EXPECT_EQ(ReadFile(dir.path() + "/" + name), "mine") << name;
}

TEST(CacheFilesTest, AWriterKilledBeforeTheRenameLeavesNoFileAndTheNextWriterCleansUp) {
  const TempDir dir;
  const std::string path = dir.path() + "/a.graph";
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto file = AtomicFile::Create(path);
    if (file && file->Write(BytesOf("half"))) ::raise(SIGKILL);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(dir.Names().size(), 2u);  // the lock and what the child left

  auto living = AtomicFile::Create(dir.path() + "/b.graph");
  ASSERT_TRUE(living);
  ASSERT_TRUE(WriteWhole(path, "whole"));
  EXPECT_EQ(ReadFile(path), "whole");
  EXPECT_TRUE(std::filesystem::exists(living->temporary_path()));  // its writer lives, so it was left alone
  ASSERT_TRUE(living->Commit());
  EXPECT_EQ(dir.Names(), (Names{".lock", "a.graph", "b.graph"}));
}

TEST(CacheFilesTest, AFolderThatCannotBeMadeIsAnErrorThatNamesIt) {
  const TempDir dir;
  WriteFile(dir.path() + "/plain", "a file");
  const auto result = AtomicFile::Create(dir.path() + "/plain/a.graph");
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().ToString().find("plain"), std::string::npos);
}

TEST(CacheFilesTest, PruningRemovesTheLeastRecentlyUsed) {
  const TempDir dir;
  const Names names = {"a.graph", "b.blobs", "c.graph", "d.graph"};
  for (size_t i = 0; i < names.size(); ++i) {
    WriteFile(dir.path() + "/" + names[i], std::string(100, 'x'));
    SetAge(dir.path() + "/" + names[i], 1000 + static_cast<int64_t>(i));
  }
  WriteFile(dir.path() + "/notes.txt", std::string(1000, 'x'));
  TouchFile(dir.path() + "/a.graph");

  auto all = PruneCache(dir.path(), 400);
  ASSERT_TRUE(all);
  EXPECT_EQ(all->removed_files, 0);
  EXPECT_EQ(all->kept_bytes, 400);

  auto some = PruneCache(dir.path(), 299);
  ASSERT_TRUE(some);
  EXPECT_EQ(some->removed_files, 2);
  EXPECT_EQ(some->removed_bytes, 200);
  EXPECT_EQ(dir.Names(), (Names{".lock", "a.graph", "d.graph", "notes.txt"}));

  ASSERT_TRUE(PruneCache(dir.path(), 0));
  EXPECT_EQ(dir.Names(), (Names{".lock", "notes.txt"}));
  EXPECT_TRUE(PruneCache(dir.path() + "/none", 0));
}

}  // namespace
}  // namespace deepinfer::backend
