#include "pjrt/plugin_search.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "base/env.h"

namespace deepinfer::pjrt {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> Entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    entries.push_back(it->path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool LooksLikePlugin(const fs::path& file) {
  if (file.extension() != ".so") return false;
  const std::string stem = file.stem().string();
  return stem.find("pjrt") != std::string::npos || stem.find("_plugin") != std::string::npos || stem == "libtpu";
}

// Packages of `folder`; those of a namespace package are one level deeper.
void AddPackages(const fs::path& folder, std::vector<PluginFile>* plugins) {
  for (const fs::path& package : Entries(folder)) {
    std::error_code error;
    if (!fs::is_directory(package, error)) continue;
    const std::string name = package.filename().string();
    if (name == "xla_plugins" || name == "jax_plugins") {
      AddPackages(package, plugins);
      continue;
    }
    for (const fs::path& file : Entries(package)) {
      if (LooksLikePlugin(file)) plugins->push_back({name, file.string()});
    }
  }
}

void AddPythons(const fs::path& lib, std::vector<std::string>* folders) {
  for (const fs::path& python : Entries(lib)) {
    if (python.filename().string().rfind("python3", 0) != 0) continue;
    for (const char* name : {"site-packages", "dist-packages"}) {
      std::error_code error;
      if (fs::is_directory(python / name, error)) folders->push_back((python / name).string());
    }
  }
}

bool IsPath(const std::string& spec) {
  return spec.find('/') != std::string::npos || (spec.size() > 3 && spec.compare(spec.size() - 3, 3, ".so") == 0);
}

std::string Names(const std::vector<PluginFile>& plugins) {
  std::string out;
  for (const PluginFile& plugin : plugins) out += (out.empty() ? "" : ", ") + plugin.name;
  return out.empty() ? "none" : out;
}

}  // namespace

std::vector<std::string> PackageFolders() {
  std::vector<std::string> folders;
  std::istringstream listed(GetEnv("DEEPINFER_PJRT_PATH"));
  for (std::string folder; std::getline(listed, folder, ':');) {
    if (!folder.empty()) folders.push_back(folder);
  }
  const std::string environment = GetEnv("VIRTUAL_ENV");
  if (!environment.empty()) AddPythons(fs::path(environment) / "lib", &folders);
  const std::string home = GetEnv("HOME");
  if (!home.empty()) AddPythons(fs::path(home) / ".local" / "lib", &folders);
  AddPythons("/usr/local/lib", &folders);
  AddPythons("/usr/lib", &folders);
  return folders;
}

std::vector<PluginFile> ListPlugins(const std::vector<std::string>& folders) {
  std::vector<PluginFile> plugins;
  for (const std::string& folder : folders) {
    std::vector<PluginFile> found;
    AddPackages(folder, &found);
    for (PluginFile& plugin : found) {
      const bool known = std::any_of(plugins.begin(), plugins.end(),
                                     [&](const PluginFile& other) { return other.name == plugin.name; });
      if (!known) plugins.push_back(std::move(plugin));
    }
  }
  return plugins;
}

Result<PluginFile> FindPlugin(const std::string& spec) {
  const std::string chosen = spec.empty() ? GetEnv("DEEPINFER_PJRT_PLUGIN") : spec;
  return FindPlugin(chosen, PackageFolders());
}

Result<PluginFile> FindPlugin(const std::string& spec, const std::vector<std::string>& folders) {
  if (IsPath(spec)) {
    std::error_code error;
    if (!fs::is_regular_file(spec, error))
      return MakeError(ErrorCode::kNotFound, "pjrt plugin " + spec, "no such file");
    return PluginFile{fs::path(spec).stem().string(), spec};
  }
  const std::vector<PluginFile> plugins = ListPlugins(folders);
  if (spec.empty()) {
    if (plugins.size() == 1) return plugins[0];
    if (plugins.empty()) {
      return MakeError(ErrorCode::kNotFound, "pjrt plugin",
                       "none is installed; name one by path, in DEEPINFER_PJRT_PLUGIN, or install a Python package "
                       "that has one");
    }
    return MakeError(ErrorCode::kInvalidArgument, "pjrt plugin", "there are several, choose one: {}", Names(plugins));
  }
  for (const PluginFile& plugin : plugins) {
    if (plugin.name == spec) return plugin;
  }
  return MakeError(ErrorCode::kNotFound, "pjrt plugin '" + spec + "'", "is not installed; found: {}", Names(plugins));
}

}  // namespace deepinfer::pjrt
