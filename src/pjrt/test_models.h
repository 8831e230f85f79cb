// For tests: the steps of small models, ready for this backend. Fixed sizes.
#pragma once

#include <string>

#include "models/test_models.h"
#include "passes/pass.h"
#include "pjrt/target.h"

namespace deepinfer::pjrt {

inline Result<ir::Module> SmallStep(const std::string& architecture, models::Phase phase, DType dtype = DType::kF32,
                                    Encoding encoding = Encoding::kF32) {
  DI_ASSIGN_OR_RETURN(const auto model, models::CreateFromJson(models::SmallConfig(architecture)));
  models::StepShape shape = models::SmallShape(phase);
  shape.activations = dtype;
  shape.kv = dtype;
  if (phase == models::Phase::kPrefill) shape.requests = 1;
  DI_ASSIGN_OR_RETURN(ir::Module module, model->Record(shape, models::PlainWeights(*model, encoding)));
  const auto report = passes::RunPipeline(&module, {}, {StableHloPasses(), {}, {}});
  DI_RETURN_IF_ERROR(report);
  return module;
}

}  // namespace deepinfer::pjrt
