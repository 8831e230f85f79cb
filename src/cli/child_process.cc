#include "cli/child_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>

#include "cli/clock.h"

namespace deepinfer::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr char kSelf[] = "/proc/self/exe";

tl::unexpected<Error> ChildError(const std::string& what) {
  return MakeError(ErrorCode::kInternal, "child process", "{}", what);
}

// Reads to the end; notes when the first line was complete.
ChildRun ReadAll(int fd, Clock::time_point start) {
  ChildRun run;
  bool complete = false;
  char buffer[4096];
  for (;;) {
    const ssize_t got = ::read(fd, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return run;
    if (complete) continue;
    const std::string_view piece(buffer, static_cast<size_t>(got));
    const size_t end = piece.find('\n');
    run.first_line += piece.substr(0, end);
    if (end == std::string_view::npos) continue;
    complete = true;
    run.first_line_ms = MsSince(start);
  }
}

}  // namespace

Result<ChildRun> RunSelf(const std::vector<std::string>& arguments) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return ChildError(std::strerror(errno));
  std::vector<std::string> owned = {"deepinfer"};
  owned.insert(owned.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& argument : owned) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const Clock::time_point start = Clock::now();
  const pid_t pid = ::fork();
  if (pid == 0) {
    // Other threads are gone here: system calls only. execv hands the environment on.
    const int null = ::open("/dev/null", O_RDONLY);
    if (null >= 0) ::dup2(null, STDIN_FILENO);
    ::dup2(ends[1], STDOUT_FILENO);
    ::execv(kSelf, argv.data());
    ::_exit(127);
  }
  const int failure = errno;
  ::close(ends[1]);
  if (pid < 0) {
    ::close(ends[0]);
    return ChildError(std::strerror(failure));
  }
  ChildRun run = ReadAll(ends[0], start);
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return ChildError("generate failed");
  if (run.first_line_ms == 0) return ChildError("generate printed nothing");
  return run;
}

Result<TemporaryFolder> TemporaryFolder::Create() {
  std::error_code error;
  std::string name = (fs::temp_directory_path(error) / "deepinfer-bench-XXXXXX").string();
  if (error || ::mkdtemp(name.data()) == nullptr) {
    return MakeError(ErrorCode::kResourceExhausted, "temporary folder", "{}",
                     error ? error.message() : std::strerror(errno));
  }
  return TemporaryFolder(name);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  if (!path_.empty()) fs::remove_all(path_, error);
}

}  // namespace deepinfer::cli
