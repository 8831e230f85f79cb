// Identifies the running program, so that an edited one never runs yesterday's plan.
//
// The linker's build id (a hash of the program's contents, from the note the loader mapped), or size and time of change
// of the program's file where there is none. Cheap; the same all through a process. Thread-safe.
#pragma once

#include <string>

namespace deepinfer::backend {

std::string BuildId();  // "gnu-<hex>" or "file-<size>-<seconds>.<nanoseconds>"

}  // namespace deepinfer::backend
