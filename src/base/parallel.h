// Splits one piece of work over short-lived threads: for loading and packing, where a ThreadTeam is not yet there.
#pragma once

#include <system_error>
#include <thread>
#include <vector>

namespace deepinfer {

// Calls work(part) for every part in [0, parts), each on a thread of its own but the first, and returns when all are
// done. Parts whose thread cannot be started (a process limit) run on the caller. work must not throw.
template <class Work>
void ParallelFor(int parts, const Work& work) {
  std::vector<std::thread> threads;
  threads.reserve(parts > 0 ? static_cast<size_t>(parts) : 0);
  int started = 1;
  try {
    for (; started < parts; ++started) threads.emplace_back([&work, part = started] { work(part); });
  } catch (const std::system_error&) {
    for (int part = started; part < parts; ++part) work(part);
  }
  if (parts > 0) work(0);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace deepinfer
