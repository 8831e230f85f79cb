// From a checkpoint to a model and the tensors it reads. The table of architectures is in registry.cc.
//
// LoadModel answers for the whole file: every weight that the model reads is there, of the config's shape and of a type
// that can be read, and every tensor that the model does not read is known to be harmless; anything else is an error
// that names the file and the tensor. No tensor data is touched, but for the comparison of a tied head that is stored
// as well. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/checkpoint.h"
#include "models/model.h"

namespace deepinfer::models {

struct LoadedModel {
  std::unique_ptr<Model> model;
  // For each of model->Weights(): the name of its tensor in the checkpoint.
  std::map<std::string, std::string> tensors;
  std::vector<std::string> warnings;
};

Result<LoadedModel> LoadModel(const formats::Checkpoint& checkpoint);

// The model alone; says nothing about the weights of a folder.
Result<std::unique_ptr<Model>> CreateModel(const formats::Checkpoint& checkpoint);
Result<std::unique_ptr<Model>> CreateModel(const formats::HfConfig& config);

// "llama, qwen2, ..."
std::string SupportedArchitectures();

}  // namespace deepinfer::models
