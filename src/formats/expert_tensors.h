// Experts whose matrices lie apart become one tensor: "l.mlp.experts.0.up_proj.weight", "..1..", ... of shape [F, H]
// are "l.mlp.experts.up_proj.weight" of shape [experts, F, H], as GGUF files have it. Its rows are made when asked for,
// since the matrices need not follow each other in the file.
//
// Fails, naming the tensor, where a number is missing or where experts differ in shape or type. Pure.
#pragma once

#include <vector>

#include "base/error.h"
#include "formats/checkpoint_tensor.h"

namespace deepinfer::formats {

Result<std::vector<CheckpointTensor>> JoinExperts(std::vector<CheckpointTensor> tensors);

}  // namespace deepinfer::formats
