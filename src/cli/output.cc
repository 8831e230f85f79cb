#include "cli/output.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/mapped_file.h"

namespace deepinfer::cli {
namespace {

tl::unexpected<Error> SystemError(const std::string& where, int code) {
  return MakeError(ErrorCode::kDataLoss, where, "{}", std::strerror(code));
}

// Code points, near enough to columns for what tables hold.
size_t Width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

bool IsNumber(const std::string& cell) {
  return cell.empty() || std::strchr("0123456789-.", cell[0]) != nullptr;
}

}  // namespace

Status WriteOut(std::string_view text) {
  errno = 0;
  if (std::ferror(stdout) != 0) return SystemError("stdout", EPIPE);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    return SystemError("stdout", errno != 0 ? errno : EIO);
  }
  return {};
}

Status WriteJson(const Json& json) {
  return WriteOut(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void SayErr(std::string_view line) {
  // One write, so that lines of several threads do not mix.
  const std::string text = std::string(line) + "\n";
  std::fputs(text.c_str(), stderr);
}

Result<std::string> ReadStdin() {
  std::string text;
  char buffer[65536];
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, buffer, sizeof(buffer));
    if (got == 0) return text;
    if (got > 0) {
      text.append(buffer, static_cast<size_t>(got));
    } else if (errno != EINTR) {
      return SystemError("stdin", errno);
    }
  }
}

Result<std::string> ReadFile(const std::string& path) {
  DI_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

Status WriteFile(const std::string& path, std::string_view text) {
  errno = 0;
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return SystemError(path, errno);
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed) return SystemError(path, errno != 0 ? errno : EIO);
  return {};
}

Status ReplaceFile(const std::string& path, std::string_view text) {
  const std::string temporary = fmt::format("{}.tmp-{}", path, ::getpid());
  Status status = WriteFile(temporary, text);
  if (status && std::rename(temporary.c_str(), path.c_str()) != 0) status = SystemError(path, errno);
  if (status) return {};
  ::unlink(temporary.c_str());
  return MakeError(status.error().code, path, "cannot be written: {}", status.error().message);
}

std::string FormatTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  std::vector<bool> numbers;
  for (size_t row = 0; row < rows.size(); ++row) {
    widths.resize(std::max(widths.size(), rows[row].size()));
    numbers.resize(widths.size(), true);
    for (size_t i = 0; i < rows[row].size(); ++i) {
      widths[i] = std::max(widths[i], Width(rows[row][i]));
      if (row > 0 && !IsNumber(rows[row][i])) numbers[i] = false;
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - Width(row[i]), ' ');
      line += (i == 0 ? "" : "  ") + (numbers[i] ? padding + row[i] : row[i] + padding);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string FormatBytes(int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  if (bytes < (1 << 20)) return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / (1 << 10));
  if (bytes < (1 << 30)) return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1 << 30));
}

}  // namespace deepinfer::cli
