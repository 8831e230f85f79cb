// Addresses in a StepIo of what a graph's entry names. Pure. An error names the kind and the name of what is missing
// (kNotFound) or too small (kInvalidArgument).
#pragma once

#include <string>

#include "backend/backend.h"
#include "base/error.h"
#include "ir/graph.h"

namespace deepinfer::backend {

// The buffer a state lives in: its own unless it shares one.
inline const std::string& BufferOf(const ir::Input& input) {
  return input.buffer.empty() ? input.name : input.buffer;
}

Result<void*> MetadataAddress(const StepIo& io, const std::string& name, const ir::Type& type);
Result<void*> OutputAddress(const StepIo& io, const std::string& name, const ir::Type& type);
// Of states in host memory.
Result<void*> StateAddress(const StepIo& io, const ir::Input& input, const ir::Type& type);

}  // namespace deepinfer::backend
