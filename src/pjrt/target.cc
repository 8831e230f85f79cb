#include "pjrt/target.h"

namespace deepinfer::pjrt {

backend::Caps StableHloCaps() {
  return {.encodings = {Encoding::kF32, Encoding::kBF16}, .max_prefill_requests = 1, .max_batched_tokens = 256};
}

std::vector<std::string> StableHloPasses() {
  return {"functionalize", "decompose", "narrow_dots", "constant_fold", "cse", "dce"};
}

}  // namespace deepinfer::pjrt
