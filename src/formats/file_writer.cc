#include "formats/file_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace deepinfer::formats {

FileWriter::FileWriter(std::string path, std::string temporary, int fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, "")),
      fd_(std::exchange(other.fd_, -1)) {}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<FileWriter> FileWriter::Create(const std::string& path) {
  std::string temporary = fmt::format("{}.tmp.{}", path, ::getpid());
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return MakeError(ErrorCode::kInvalidArgument, path, "cannot write: {}", std::strerror(errno));
  return FileWriter(path, std::move(temporary), fd);
}

Status FileWriter::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      return MakeError(ErrorCode::kResourceExhausted, path_, "writing failed: {}", std::strerror(errno));
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Status FileWriter::Close() {
  if (fd_ < 0) return {};
  if (::close(std::exchange(fd_, -1)) == 0) return {};
  return MakeError(ErrorCode::kResourceExhausted, path_, "writing failed: {}", std::strerror(errno));
}

Status FileWriter::Commit() {
  DI_RETURN_IF_ERROR(Close());
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return MakeError(ErrorCode::kInvalidArgument, path_, "cannot rename: {}", std::strerror(errno));
  }
  temporary_.clear();
  return {};
}

}  // namespace deepinfer::formats
