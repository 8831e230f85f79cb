// The bodies of the fuzz targets: each feeds bytes to one reader and then uses what it returned, as its callers would.
// They must return for every input: no crash, no exception, no large allocation. libFuzzer runs them (fuzz_*.cc), and
// so does the replay test without it. Thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace deepinfer::fuzz {

using Bytes = std::span<const std::byte>;

void FuzzGguf(Bytes bytes);
void FuzzSafetensors(Bytes bytes);
// config.json, a zero byte, generation_config.json; without a zero byte there is only the first.
void FuzzHfConfig(Bytes bytes);

struct Target {
  std::string_view name;  // also the folder in corpus/
  void (*run)(Bytes);
};
inline constexpr Target kTargets[] = {
    {"gguf", FuzzGguf},
    {"safetensors", FuzzSafetensors},
    {"hf_config", FuzzHfConfig},
};

}  // namespace deepinfer::fuzz
