// From a checkpoint to a model and its weights: names mapped, types checked, what the backend cannot read converted.
//
// Every weight the model reads must be there with the shape the model gives it; every tensor of the file must be read
// or be known not to matter, else the load fails naming the tensor. Vectors (norms, biases) become f32. Matrices in an
// encoding outside caps.encodings become f32. Weight bytes are views of the mapped files or of memory owned here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/error.h"
#include "formats/checkpoint.h"
#include "models/model.h"

namespace deepinfer::runner {

struct LoadedModel {
  std::unique_ptr<models::Model> model;
  std::string fingerprint;
  backend::WeightMap weights;
  models::WeightTable types;
  std::vector<std::string> warnings;

  std::unique_ptr<formats::Checkpoint> checkpoint;  // null for synthetic models
  std::vector<std::unique_ptr<std::vector<std::byte>>> converted;
};

// path: a GGUF file, a Hugging Face folder, or "synthetic:FILE.json". threads: for conversions.
Result<LoadedModel> LoadModel(const std::string& path, const backend::Caps& caps, int threads);

}  // namespace deepinfer::runner
