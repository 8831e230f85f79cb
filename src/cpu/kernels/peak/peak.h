// The most multiply-adds this machine does a second, from registers: what `bench` compares matrix products with.
#pragma once

#include "base/cpu_features.h"
#include "base/thread_team.h"

namespace deepinfer::cpu {

// Floating-point operations a second (a multiply-add is two) of all members of the team together, with the instruction
// that the matrix kernels of `isa` are made of: best of `rounds` of about 20 ms. The machine must have `isa`.
double MeasurePeakFlops(Isa isa, ThreadTeam* team, int rounds);

}  // namespace deepinfer::cpu
