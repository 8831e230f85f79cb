// Ctrl-C as something a loop can ask about: while an Interrupt lives, SIGINT is counted instead of ending the program.
//
// After `limit` presses that nobody took the program ends at once (exit status 130): a step that hangs can still be
// left. One object at a time; count() may be read from any thread.
#pragma once

#include <csignal>

namespace deepinfer::cli {

class Interrupt {
 public:
  explicit Interrupt(int limit);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;

  int count() const;  // presses since construction or the last Clear
  void Clear();
  int fd() const;  // readable once there was a press: for poll; -1 if the system gave none

 private:
  struct sigaction before_;
};

}  // namespace deepinfer::cli
