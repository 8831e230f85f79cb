// Records a model's step, on each of its ranks, and rewrites it for a target. Pure: the same arguments give the same
// canonical text; threads may record at once.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/error.h"
#include "models/model.h"

namespace deepinfer::runner {

// What a graph is made ready for.
struct GraphTarget {
  std::vector<std::string> passes;  // passes/pass.h, in order
  // Is there a kernel for this composite? Null: none, so all are decomposed.
  std::function<bool(const ir::Function&, const ir::Node&)> claims;
};

// The backend must outlive what is returned.
GraphTarget TargetOf(const backend::Backend& backend);

// The step as the model records it, from the types of each rank's weights; shape.ranks must be as many. Fails where
// ranks would not run the same program (backend/spmd_guard.h).
Result<ir::Module> RecordRaw(const models::Model& model, const models::StepShape& shape,
                             const std::vector<models::WeightTable>& weights_by_rank);
// After the target's passes.
Result<ir::Module> RecordGraph(const models::Model& model, const models::StepShape& shape,
                               const std::vector<models::WeightTable>& weights_by_rank, const GraphTarget& target);

}  // namespace deepinfer::runner
