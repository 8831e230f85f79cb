// Opens a GGUF model that may be split over files named NAME-00001-of-00003.gguf. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "formats/gguf.h"

namespace deepinfer::formats {

// One file, or all parts in order when `path` is the first part of a split model; the first holds the metadata. A
// missing part, parts that disagree on their number, and a tensor count other than the stated one are errors.
Result<std::vector<GgufFile>> OpenGgufParts(const std::string& path);

}  // namespace deepinfer::formats
