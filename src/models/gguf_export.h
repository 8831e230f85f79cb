// What a GGUF file says about a model that was read from a Hugging Face folder, and how its tensors differ there.
//
// Key names and tensor conventions: the GGUF specification (ggml project, docs/gguf.md) and the files of the
// architectures read here. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "formats/gguf_writer.h"
#include "models/model.h"

namespace deepinfer::models {

// "<architecture>.*" and general.architecture. Fails for a model that is no decoder of a known architecture.
Status AddGgufMetadata(const Model& model, formats::GgufWriter* writer);

struct GgufTensorForm {
  std::string name;
  // Rows of so many heads change places: of the first `rotated` = 2d rows of a head, rows i and d + i become rows 2i
  // and 2i + 1 (llama's q and k).
  int64_t interleaved_heads = 0;
  int64_t rotated = 0;
  float offset = 0;  // added to every value (Gemma's norms)
};
Result<GgufTensorForm> GgufFormOf(const Model& model, const std::string& weight);

// rope_freqs.weight: by how much the frequencies of default rope are divided; empty if the model needs no such tensor.
Result<std::vector<float>> GgufRopeFactors(const Model& model);

// Fails, naming the setting, if the model read back from a GGUF file would not compute what `model` does: the format
// has no word for some settings.
Status CheckGgufSaysTheSame(const Model& model, const Model& read_back, const std::string& where);

}  // namespace deepinfer::models
