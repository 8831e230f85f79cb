// Compiled executables on disk: what a plugin serialised, filed under everything that made it.
//
// The key is the StableHLO text, the plugin's name, API version, platform and the compiler's version, the compile
// options and, where the platform is a CPU, the machine's. A file of another key, a damaged one, or one that the plugin
// refuses is compiled anew and replaced. Files lie in the cache folder ("pjrt_<hash>.blobs") and count towards its cap
// (backend/cache_files.h). Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "pjrt/client.h"

namespace deepinfer::pjrt {

struct Compiled {
  LoadedExecutable executable;
  bool from_cache = false;
  double ms = 0;
  std::string note;  // why it is not from the cache, or could not be kept there; may be empty
};

class ExecutableStore {
 public:
  // dir: empty keeps nothing.
  ExecutableStore(std::shared_ptr<const Client> client, std::string dir);
  Result<Compiled> Get(const std::string& stablehlo, const CompileOptionsSpec& options) const;
  const std::string& identity() const { return identity_; }  // of plugin, compiler and machine

 private:
  std::shared_ptr<const Client> client_;
  std::string dir_;
  std::string identity_;
};

}  // namespace deepinfer::pjrt
