#include "runner/record.h"

#include "passes/pass.h"

namespace deepinfer::runner {

GraphTarget TargetOf(const backend::Backend& backend) {
  return {backend.passes(),
          [&backend](const ir::Function& f, const ir::Node& node) { return backend.Claims(f, node); }};
}

Result<ir::Module> RecordGraph(const models::Model& model, const models::StepShape& shape,
                               const models::WeightTable& weights, const GraphTarget& target) {
  DI_ASSIGN_OR_RETURN(ir::Module module, model.Record(shape, weights));
  passes::PassContext context;
  context.claims = target.claims;
  passes::PipelineOptions pipeline;
  pipeline.passes = target.passes;
  DI_RETURN_IF_ERROR(passes::RunPipeline(&module, context, pipeline));
  return module;
}

}  // namespace deepinfer::runner
