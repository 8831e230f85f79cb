// Names of tensors: each file format's own brought to the canonical ones, which are those of Hugging Face checkpoints
// ("model.layers.0.self_attn.q_proj.weight"). Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace deepinfer::models {

// Of a tensor in a GGUF file of that architecture. A name that is not known comes back as it is.
std::string CanonicalName(std::string_view architecture, std::string_view gguf_name);
// The other way round: what a GGUF file of that architecture calls the weight.
std::string GgufName(std::string_view architecture, std::string_view canonical_name);
// Of a tensor in a Hugging Face folder: the language model's part of a multimodal checkpoint loses its prefix.
std::string CanonicalHfName(std::string_view name);
// True for tensors that hold nothing a model could need: buffers that are computed from the config.
bool IsIgnorable(std::string_view name);
// True for the image part of a multimodal checkpoint, by its name in the folder.
bool IsVisionTensor(std::string_view name);

}  // namespace deepinfer::models
