// A loaded PJRT plugin: its table of functions, checked, and the errors it gives.
//
// Only the C API is used (pjrt_c_api.h, from a plugin's package at build time). The major version must be the header's;
// the table must be long enough and every function that this room calls must be there. A plugin stays loaded for the
// process's life: its threads cannot be stopped. Errors name the plugin, its API version, the call, and carry the
// plugin's own message on one line. Thread-safe.
#pragma once

#include <pjrt_c_api.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "pjrt/plugin_search.h"

namespace deepinfer::pjrt {

class Plugin {
 public:
  static Result<std::shared_ptr<const Plugin>> Load(const PluginFile& file);
  // Checks a table that is already in memory, as Load does.
  static Result<std::shared_ptr<const Plugin>> FromTable(const std::string& name, const PJRT_Api* api);

  const PJRT_Api& api() const { return *api_; }
  const std::string& name() const { return name_; }
  std::string version() const;  // "0.81"
  std::string Label() const;    // "pjrt plugin 'xla_cpu_pjrt' (API 0.81)"

  bool HasMemoryStats() const;  // the one call that is used only where it is there

  // Turns what a call returned into a Status and frees it. Null is success.
  Status Check(PJRT_Error* error, const char* call) const;
  // Waits for an event, which may be null, and frees it.
  Status Await(PJRT_Event* event, const char* call) const;
  void Free(PJRT_Event* event) const;

 private:
  Plugin(std::string name, const PJRT_Api* api) : name_(std::move(name)), api_(api) {}
  Status CheckTable() const;

  std::string name_;
  const PJRT_Api* api_;
};

// A plugin's error about something that has a name: "weight 'w' f32[2,2]".
tl::unexpected<Error> About(const std::string& what, const Error& error);

// An argument struct with its size set.
template <class T>
T MakeArgs(size_t struct_size) {
  T args{};
  args.struct_size = struct_size;
  return args;
}
#define DI_PJRT_ARGS(name, type) auto name = ::deepinfer::pjrt::MakeArgs<type>(type##_STRUCT_SIZE)

}  // namespace deepinfer::pjrt
