// Ranks of one step run one program: a collective waits for ever where another rank runs a different one. So each
// rank's step is recorded on its own, and the canonical texts must be the same, byte for byte. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace deepinfer::backend {

// `what` names the step. kFailedPrecondition with the first line that differs, as both ranks have it.
Status CheckSameProgram(const std::string& what, const std::vector<std::string>& text_by_rank);

}  // namespace deepinfer::backend
