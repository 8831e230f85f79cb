#include "runner/record.h"

#include "backend/spmd_guard.h"
#include "ir/text.h"
#include "passes/pass.h"

namespace deepinfer::runner {

GraphTarget TargetOf(const backend::Backend& backend) {
  return {backend.passes(),
          [&backend](const ir::Function& f, const ir::Node& node) { return backend.Claims(f, node); }};
}

Result<ir::Module> RecordRaw(const models::Model& model, const models::StepShape& shape,
                             const std::vector<models::WeightTable>& weights_by_rank) {
  const auto ranks = static_cast<int64_t>(weights_by_rank.size());
  if (ranks != shape.ranks || ranks < 1) {
    return MakeError(ErrorCode::kInvalidArgument, "step shape", "is of {} ranks, the weights are of {}", shape.ranks,
                     ranks);
  }
  DI_ASSIGN_OR_RETURN(ir::Module module, model.Record(shape, weights_by_rank[0]));
  if (ranks == 1) return module;
  std::vector<std::string> texts = {ir::Print(module)};
  for (size_t rank = 1; rank < weights_by_rank.size(); ++rank) {
    DI_ASSIGN_OR_RETURN(const ir::Module other, model.Record(shape, weights_by_rank[rank]));
    texts.push_back(ir::Print(other));
  }
  DI_RETURN_IF_ERROR(backend::CheckSameProgram(fmt::format("{}:{}", ToString(shape.phase), shape.tokens), texts));
  return module;
}

Result<ir::Module> RecordGraph(const models::Model& model, const models::StepShape& shape,
                               const std::vector<models::WeightTable>& weights_by_rank, const GraphTarget& target) {
  DI_ASSIGN_OR_RETURN(ir::Module module, RecordRaw(model, shape, weights_by_rank));
  passes::PassContext context;
  context.claims = target.claims;
  passes::PipelineOptions pipeline;
  pipeline.passes = target.passes;
  DI_RETURN_IF_ERROR(passes::RunPipeline(&module, context, pipeline));
  return module;
}

}  // namespace deepinfer::runner
