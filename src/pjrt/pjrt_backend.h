// The PJRT backend: the same graph on whatever a plugin drives, through StableHLO text and the PJRT C API.
//
// Composites are decomposed, so it shares no kernel with the CPU backend: a second opinion on every model. Weights are
// read as f32 or bf16 and given to the plugin once, where possible without a copy; states live on the device and are
// donated to each step. One request per prefill graph: a decomposed ragged prefill would not fit in memory. Breaks are
// part of the graph; one that a host function should stand in for is refused. Each rank is a device of its own, the
// first ones that the plugin lists. Life and threads: backend.h. Errors name the plugin, its API version and the call,
// or the weight, state or slot.
#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"

namespace deepinfer::pjrt {

struct PjrtOptions {
  std::string plugin;     // path or name; empty: see plugin_search.h
  std::string cache_dir;  // where compiled executables are kept; empty: nowhere
  int64_t ranks = 1;
};

Result<std::unique_ptr<backend::Backend>> CreatePjrtBackend(const PjrtOptions& options);

}  // namespace deepinfer::pjrt
