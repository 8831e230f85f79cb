// The reference backend: the definition of right. It runs the decompositions of every composite through the
// interpreter, in f32, with no fusion and no packing, and is only as fast as checking real models against it needs.
//
// It simulates several ranks in lockstep, on the same threads: each launch runs on every rank before the next one does.
// So a step of many ranks needs no more cores than one, is the same every time, and none can wait for ever.
// Each rank has weights, states and scratch of its own. A step without collectives is run by every rank alike.
//
// Weights are read where they lie: the data given to SetWeights must stay readable as long as the backend lives.
// Executables share one arena: Compile plans it, Finalize allocates it, Capture needs it. Life and threads: backend.h.
// Errors: kUnsupported names the op, composite or custom_call target that cannot run; kNotFound names the weight,
// metadata slot or state buffer that is missing; kFailedPrecondition names the input that has moved since Capture;
// kInvalidArgument for a step or a weight of another number of ranks.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace deepinfer::reference {

struct ReferenceOptions {
  int threads = 1;
  // For tests: before a node runs, the rows of its results past the live count are filled with NaN (integers with -1),
  // so that anything that reads padding shows.
  bool poison_padding = false;
  int64_t ranks = 1;  // at least 1; with more, breaks run their bodies: a host function is refused
};

std::unique_ptr<backend::Backend> CreateReferenceBackend(const ReferenceOptions& options);

}  // namespace deepinfer::reference
