// Files of a cache folder that several processes share: atomic writes, reuse times, and a cap on the total size.
//
// A file appears whole or not at all: it is written under a temporary name beside its place, synced, renamed, and the
// folder is synced. Creation and renaming hold the folder's lock (flock on ".lock"); readers need none. A temporary
// file is locked by its writer while that lives, so whatever a killed writer left behind is known and removed by the
// next one. Errors name the path and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"

namespace deepinfer::backend {

inline constexpr char kGraphSuffix[] = ".graph";
inline constexpr char kBlobSuffix[] = ".blobs";

// An open file descriptor; closing it also drops its lock.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor() { Close(); }
  int get() const { return fd_; }
  void Close();

 private:
  int fd_ = -1;
};

// Holds the folder's lock until destroyed; waits for it. Makes the folder if need be.
Result<FileDescriptor> LockCacheDir(const std::string& dir);

// One file being written. Destroyed without Commit, it leaves nothing. Not thread-safe.
class AtomicFile {
 public:
  static Result<AtomicFile> Create(const std::string& path);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Status Write(std::span<const std::byte> bytes);
  Status WriteZeros(uint64_t count);
  Status Commit();  // after this, nothing else may be called

  const std::string& temporary_path() const { return temporary_; }

 private:
  AtomicFile() = default;
  std::string path_;
  std::string temporary_;  // empty: nothing to remove
  FileDescriptor fd_;
};

// Marks a file as just used. Failure is of no interest: the file may be gone or read-only.
void TouchFile(const std::string& path);

struct PruneResult {
  int64_t removed_files = 0;
  int64_t removed_bytes = 0;
  int64_t kept_bytes = 0;
};

// Removes graphs and blob files, least recently used first, until at most max_bytes of them are left; leaves all other
// files alone. Readers that have a removed file mapped keep it. A folder that does not exist is empty.
Result<PruneResult> PruneCache(const std::string& dir, int64_t max_bytes);

}  // namespace deepinfer::backend
