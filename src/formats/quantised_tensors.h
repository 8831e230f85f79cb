// Turns the tensors of a quantised Hugging Face checkpoint into the weights they stand for. Internal to this room.
//
// P.qweight, P.qzeros, P.scales and P.g_idx (gptq, awq), P.weight_packed and P.weight_scale (compressed-tensors) and
// P.weight with P.weight_scale or P.weight_scale_inv (fp8, int8) become one tensor P.weight [outputs, inputs] whose
// rows are made on demand, exactly: no code and no scale is rounded. Inputs that g_idx puts into groups in any order
// are brought together in the rows, which then have an order of their own. Scales of activations and caches, which
// nothing here uses, are left out. Shapes and types are checked, and scales that int4 must hold as f16; other data is
// not touched, but for the group of each input (g_idx). Thread-safe.
#pragma once

#include <vector>

#include "base/error.h"
#include "formats/checkpoint_tensor.h"
#include "formats/quantisation_config.h"

namespace deepinfer::formats {

Result<std::vector<CheckpointTensor>> AssembleQuantised(const QuantisationConfig& config,
                                                        std::vector<CheckpointTensor> tensors);

}  // namespace deepinfer::formats
