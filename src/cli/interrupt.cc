#include "cli/interrupt.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace deepinfer::cli {
namespace {

// A signal handler can reach nothing but statics.
std::atomic<int> presses{0};
std::atomic<int> press_limit{0};
int press_pipe[2] = {-1, -1};

void OnSignal(int /*signal*/) {
  const int saved = errno;
  if (++presses >= press_limit.load()) ::_exit(130);
  if (press_pipe[1] >= 0) {
    const char byte = 0;
    [[maybe_unused]] const ssize_t written = ::write(press_pipe[1], &byte, 1);
  }
  errno = saved;
}

void Drain() {
  char buffer[16];
  while (press_pipe[0] >= 0 && ::read(press_pipe[0], buffer, sizeof(buffer)) > 0) {
  }
}

}  // namespace

Interrupt::Interrupt(int limit) {
  presses = 0;
  press_limit = limit;
  if (::pipe2(press_pipe, O_CLOEXEC | O_NONBLOCK) != 0) press_pipe[0] = press_pipe[1] = -1;
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &before_);
}

Interrupt::~Interrupt() {
  ::sigaction(SIGINT, &before_, nullptr);
  for (int& fd : press_pipe) {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
}

int Interrupt::count() const {
  return presses.load();
}

void Interrupt::Clear() {
  presses = 0;
  Drain();
}

int Interrupt::fd() const {
  return press_pipe[0];
}

}  // namespace deepinfer::cli
