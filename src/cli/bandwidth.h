// How fast this machine reads memory: the ceiling of a decode step, which reads every weight once.
//
// All threads of a plan, where it puts them, read disjoint parts of one buffer that no cache holds. plain: ordinary
// pages, one sum loop; tuned: huge pages and software prefetch. Best of several rounds, in bytes per second.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "base/team_plan.h"

namespace deepinfer::cli {

struct Bandwidth {
  double plain = 0;
  double tuned = 0;
};

Result<Bandwidth> MeasureBandwidth(const TeamPlan& plan, int64_t bytes, int rounds);

}  // namespace deepinfer::cli
