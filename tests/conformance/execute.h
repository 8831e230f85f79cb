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

// A backend is used for one problem. measure: also time it.
Result<Outcome> Execute(const Problem& problem, backend::Backend* backend, bool measure = false);

// How near two outcomes must be: equal bit for bit, or within one of the slacks of each result (recorder.h).
enum class Nearness { kBits, kSlack, kCompiledSlack };

// Empty, or what differs and where.
std::string Difference(const Outcome& want, const Outcome& got, Nearness nearness);

}  // namespace deepinfer::conformance
