// libFuzzer target; see targets.h.
#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  deepinfer::fuzz::FuzzSafetensors(std::as_bytes(std::span(data, size)));
  return 0;
}
