#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>

namespace deepinfer {
namespace {

TEST(ParallelFor, EveryPartOnce) {
  for (const int parts : {0, 1, 2, 7}) {
    std::vector<std::atomic<int>> calls(8);
    ParallelFor(parts, [&](int part) { ++calls[static_cast<size_t>(part)]; });
    for (int part = 0; part < 8; ++part) EXPECT_EQ(calls[static_cast<size_t>(part)], part < parts ? 1 : 0);
  }
}

}  // namespace
}  // namespace deepinfer
