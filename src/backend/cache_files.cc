#include "backend/cache_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <tuple>
#include <vector>

namespace deepinfer::backend {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporaryMark = ".tmp-";

tl::unexpected<Error> SystemError(const std::string& path, const char* action) {
  const int reason = errno;
  const ErrorCode code = reason == ENOSPC || reason == EDQUOT || reason == EMFILE || reason == ENFILE
                             ? ErrorCode::kResourceExhausted
                             : ErrorCode::kInvalidArgument;
  return MakeError(code, path, "cannot {}: {}", action, std::strerror(reason));
}

std::string DirectoryOf(const std::string& path) {
  const std::string dir = fs::path(path).parent_path().string();
  return dir.empty() ? "." : dir;
}

bool WaitForLock(int fd) {
  int result = 0;
  do {
    result = ::flock(fd, LOCK_EX);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

bool IsCacheFile(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == kGraphSuffix || extension == kBlobSuffix;
}

// "<name of a cache file>.tmp-<digits>-<digits>": what AtomicFile makes, and nothing a person would.
bool IsTemporaryName(const std::string& name) {
  const size_t at = name.rfind(kTemporaryMark);
  if (at == std::string::npos || !IsCacheFile(name.substr(0, at))) return false;
  const std::string tail = name.substr(at + kTemporaryMark.size());
  return tail.find('-') != std::string::npos && tail.find_first_not_of("0123456789-") == std::string::npos;
}

// The caller holds the folder's lock, so no temporary file is between its creation and its own lock.
void RemoveStaleTemporaries(const std::string& dir) {
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    if (!IsTemporaryName(it->path().filename().string())) continue;
    FileDescriptor fd(::open(it->path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (fd.get() >= 0 && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(it->path().c_str());
  }
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void FileDescriptor::Close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Result<FileDescriptor> LockCacheDir(const std::string& dir) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) return MakeError(ErrorCode::kInvalidArgument, dir, "cannot make the cache folder: {}", error.message());
  const std::string path = dir + "/.lock";
  FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (fd.get() < 0) return SystemError(path, "open");
  if (!WaitForLock(fd.get())) return SystemError(path, "lock");
  return fd;
}

Result<AtomicFile> AtomicFile::Create(const std::string& path) {
  static std::atomic<uint64_t> serial{0};  // two threads of one process may write the same path
  const std::string dir = DirectoryOf(path);
  DI_ASSIGN_OR_RETURN(const FileDescriptor lock, LockCacheDir(dir));
  RemoveStaleTemporaries(dir);
  AtomicFile file;
  file.path_ = path;
  std::string temporary = fmt::format("{}{}{}-{}", path, kTemporaryMark, ::getpid(), serial.fetch_add(1));
  file.fd_ = FileDescriptor(::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (file.fd_.get() < 0) return SystemError(temporary, "create");
  file.temporary_ = std::move(temporary);
  if (!WaitForLock(file.fd_.get())) return SystemError(file.temporary_, "lock");
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, "")), fd_(std::move(other.fd_)) {}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status AtomicFile::Write(std::span<const std::byte> bytes) {
  constexpr size_t kMaxChunk = size_t{1} << 30;  // Linux writes at most 2 GiB - 4 KiB a call
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_.get(), bytes.data(), std::min(bytes.size(), kMaxChunk));
    if (written < 0) {
      if (errno == EINTR) continue;
      return SystemError(temporary_, "write");
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Status AtomicFile::WriteZeros(uint64_t count) {
  static constexpr std::array<std::byte, 4096> kZeros{};
  while (count > 0) {
    const uint64_t chunk = std::min<uint64_t>(count, kZeros.size());
    DI_RETURN_IF_ERROR(Write(std::span(kZeros).first(chunk)));
    count -= chunk;
  }
  return {};
}

Status AtomicFile::Commit() {
  if (::fsync(fd_.get()) != 0) return SystemError(temporary_, "sync");
  const std::string dir = DirectoryOf(path_);
  DI_ASSIGN_OR_RETURN(const FileDescriptor lock, LockCacheDir(dir));
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return SystemError(path_, "rename the new file to its place");
  temporary_.clear();
  const FileDescriptor folder(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems cannot sync a folder (EINVAL); the rename is then as durable as it gets.
  if (folder.get() < 0 || (::fsync(folder.get()) != 0 && errno != EINVAL)) return SystemError(dir, "sync");
  return {};
}

void TouchFile(const std::string& path) {
  ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
}

Result<PruneResult> PruneCache(const std::string& dir, int64_t max_bytes) {
  PruneResult result;
  std::error_code error;
  if (!fs::exists(dir, error)) return result;
  DI_ASSIGN_OR_RETURN(const FileDescriptor lock, LockCacheDir(dir));
  RemoveStaleTemporaries(dir);

  struct File {
    int64_t seconds = 0;
    int64_t nanoseconds = 0;
    std::string path;
    int64_t bytes = 0;
    bool operator<(const File& other) const {
      return std::tie(seconds, nanoseconds, path) < std::tie(other.seconds, other.nanoseconds, other.path);
    }
  };
  std::vector<File> files;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    struct stat info{};
    if (!IsCacheFile(it->path()) || ::lstat(it->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    files.push_back({info.st_mtim.tv_sec, info.st_mtim.tv_nsec, it->path().string(), info.st_size});
    result.kept_bytes += info.st_size;
  }
  if (error) return MakeError(ErrorCode::kInvalidArgument, dir, "cannot list the cache folder: {}", error.message());

  std::sort(files.begin(), files.end());
  for (const File& file : files) {
    if (result.kept_bytes <= max_bytes) break;
    if (::unlink(file.path.c_str()) != 0) continue;
    result.kept_bytes -= file.bytes;
    result.removed_bytes += file.bytes;
    ++result.removed_files;
  }
  return result;
}

}  // namespace deepinfer::backend
