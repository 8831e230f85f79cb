// Finds PJRT plugins: by path, by name, by environment variable, in installed Python packages.
//
// A plugin is a shared object in a package's folder whose file name says so ("pjrt", "_plugin", libtpu). Its name is
// that of the folder ("xla_cpu_pjrt", "xla_cuda13"). Searched: DEEPINFER_PJRT_PATH (folders with packages, colon
// separated), the active virtual environment, the user's and the system's package folders, in this order; the first
// of a name wins. Reads folders only; thread-safe as long as nobody calls setenv.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace deepinfer::pjrt {

struct PluginFile {
  std::string name;
  std::string path;
};

std::vector<std::string> PackageFolders();
std::vector<PluginFile> ListPlugins(const std::vector<std::string>& folders);  // sorted by folder order, then name

// spec: a path (it holds a slash or ends in .so), a name, or empty: the variable DEEPINFER_PJRT_PLUGIN, else the only
// plugin there is. kNotFound and kInvalidArgument list what was found.
Result<PluginFile> FindPlugin(const std::string& spec);
Result<PluginFile> FindPlugin(const std::string& spec, const std::vector<std::string>& folders);

}  // namespace deepinfer::pjrt
