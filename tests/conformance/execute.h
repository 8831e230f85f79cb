// Runs a problem on a backend and compares what came out.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "recorder.h"

namespace deepinfer::conformance {

struct Outcome {
  std::map<std::string, Bytes> outputs;  // by name; states too
  std::vector<std::string> launches;     // Describe()
  std::vector<Expected> expected;        // of the outputs
  ir::LiveCounts live;
  double ns = 0;  // per run, the best of several; 0 unless asked for
};

// decoded: the backend reads f32 weights only. A backend is used for one problem. measure: also time it.
Result<Outcome> Execute(const Problem& problem, bool decoded, backend::Backend* backend, bool measure = false);

// Empty, or what differs and where.
std::string Difference(const Outcome& want, const Outcome& got, bool bit_equal);

}  // namespace deepinfer::conformance
