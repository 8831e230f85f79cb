// The CompileOptionsProto that PJRT_Client_Compile takes, encoded by hand: no protobuf.
//
// Replicas run on the client's devices in order: its default assignment. Overrides set fields of XLA's DebugOptions by
// name (env_option_overrides). Field numbers: xla/pjrt/proto/compile_options.proto, stable since API 0.30. Pure;
// thread-safe.
#pragma once

#include <map>
#include <string>
#include <variant>

namespace deepinfer::pjrt {

using OptionValue = std::variant<bool, int64_t, std::string>;

struct CompileOptionsSpec {
  int64_t num_replicas = 1;
  int64_t num_partitions = 1;
  std::map<std::string, OptionValue> overrides;  // "xla_allow_excess_precision" -> false
};

std::string EncodeCompileOptions(const CompileOptionsSpec& options);

}  // namespace deepinfer::pjrt
