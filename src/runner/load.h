// From a checkpoint to a model and its weights: names mapped, types checked, what the backend cannot read converted.
//
// Every weight the model reads must be there with the shape the model gives it; every tensor of the file must be read
// or be known not to matter, else the load fails naming the tensor. Vectors (norms, biases) become f32. Matrices in an
// encoding outside caps.encodings become bf16 if the activations are bf16 and the backend reads it (rounded to nearest,
// ties to even), else f32. Weight bytes are views of the mapped files or of memory owned here; rows that must be made
// (base/row_reader.h) are left to a backend with caps.reads_rows, and made here for others.
//
// With caps.ranks > 1 each rank's part is what the model says (models::Model::Shards). Parts by rows are views. Parts
// by columns are copied; where one would cut a quantised block, the matrix is converted as if it could not be read.
#pragma once

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/dtype.h"
#include "base/error.h"
#include "formats/checkpoint.h"
#include "models/model.h"

namespace deepinfer::runner {

struct FreeBytes {
  void operator()(std::byte* data) const { std::free(data); }
};
using OwnedBytes = std::unique_ptr<std::byte, FreeBytes>;  // 64-byte aligned, so that a device may use it in place

struct LoadedModel {
  std::unique_ptr<models::Model> model;
  std::string fingerprint;
  backend::WeightMap weights;
  std::vector<models::WeightTable> types;  // by rank
  std::vector<std::string> warnings;

  std::unique_ptr<formats::Checkpoint> checkpoint;  // null for synthetic models
  std::vector<OwnedBytes> converted;
};

struct LoadOptions {
  DType activations = DType::kBF16;  // of the graphs that will read the weights
  int threads = 1;                   // for conversions
  // Matrices of plain floats are quantised to this (or what their shape allows: quantised_type.h), row by row when they
  // are asked for; for the backend it is then the checkpoint's own encoding.
  std::optional<Encoding> weights = std::nullopt;
};

// path: a GGUF file, a Hugging Face folder, or "synthetic:FILE.json".
Result<LoadedModel> LoadModel(const std::string& path, const backend::Caps& caps, const LoadOptions& options);

// The same without the weights: `types` are those that LoadModel would give them, `weights` is empty, and nothing is
// converted.
Result<LoadedModel> DescribeModel(const std::string& path, const backend::Caps& caps, const LoadOptions& options);

}  // namespace deepinfer::runner
