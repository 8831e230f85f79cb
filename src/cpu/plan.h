// Turns a flat step into launches, groups and an arena plan. Pure but for weights that are packed on first use.
#pragma once

#include "cpu/executable.h"
#include "cpu/lower/lower.h"

namespace deepinfer::cpu {

Result<StepPlan> BuildPlan(FlatStep step, Isa isa, Numerics numerics, Weights* weights, int members);

}  // namespace deepinfer::cpu
