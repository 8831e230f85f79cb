// What graphs are made ready for before they are printed as StableHLO, known without a plugin. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"

namespace deepinfer::pjrt {

// Weights as f32 or bf16. One request per prefill graph: a decomposed ragged prefill would not fit in memory.
backend::Caps StableHloCaps();
// In order (passes/pass.h). No composite has a kernel, so all are decomposed.
std::vector<std::string> StableHloPasses();

}  // namespace deepinfer::pjrt
