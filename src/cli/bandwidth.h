// How fast this machine reads memory: the ceiling of a decode step, which reads every weight once.
//
// All threads read disjoint parts of one buffer that no cache holds. plain: ordinary pages, one sum loop; tuned: huge
// pages and software prefetch. Best of several rounds, in bytes per second.
#pragma once

#include <cstdint>

#include "base/error.h"

namespace deepinfer::cli {

struct Bandwidth {
  double plain = 0;
  double tuned = 0;
};

Result<Bandwidth> MeasureBandwidth(int threads, int64_t bytes, int rounds);

}  // namespace deepinfer::cli
