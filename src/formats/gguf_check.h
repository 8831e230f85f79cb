// Checks that the parts of a GGUF file agree with each other where that needs no knowledge of the architecture: the
// vocabulary's arrays have one length, and the embedding has that many rows of the stated width. What depends on the
// architecture (heads, layers) is checked where the model asks for its tensors by shape. Thread-safe.
#pragma once

#include "base/error.h"
#include "formats/gguf.h"

namespace deepinfer::formats {

Status CheckGgufVocabulary(const GgufFile& file);

}  // namespace deepinfer::formats
