// For tests: the plugins to test with. Paths, colon separated, from DEEPINFER_PJRT_TEST_PLUGINS; else the build's own
// two, then those of installed Python packages, which may be for another platform.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "base/env.h"
#include "pjrt/client.h"
#include "pjrt/plugin_search.h"

namespace deepinfer::pjrt {

inline constexpr int kFetchedTestPlugins = 2;
inline constexpr int kMaxTestPlugins = 3;

inline std::vector<PluginFile> TestPlugins() {
  const std::string chosen = GetEnv("DEEPINFER_PJRT_TEST_PLUGINS");
  std::vector<PluginFile> plugins;
  std::istringstream stream(chosen.empty() ? DI_PJRT_TEST_PLUGINS : chosen);
  for (std::string path; std::getline(stream, path, ':');) {
    plugins.push_back(FindPlugin(path).value_or(PluginFile{path, path}));  // what is not there fails to load
  }
  if (!chosen.empty()) return plugins;
  for (const PluginFile& installed : ListPlugins(PackageFolders())) {
    const auto same = [&](const PluginFile& plugin) { return plugin.path == installed.path; };
    if (std::none_of(plugins.begin(), plugins.end(), same)) plugins.push_back(installed);
  }
  return plugins;
}

// One test per plugin: two plugins in one process would share what their symbols leak. Skipped where there is no such
// plugin, or no device for one that is installed; the fetched ones must be there if DEEPINFER_REQUIRE_ASSETS=1.
template <class Param>
class PluginParamTest : public testing::TestWithParam<Param> {
 protected:
  virtual int Number() const = 0;  // of the plugin, from 0

  void SetUp() override {
    const std::vector<PluginFile> plugins = TestPlugins();
    if (Number() >= static_cast<int>(plugins.size())) {
      const std::string missing = fmt::format("no PJRT plugin number {}", Number() + 1);
      const bool chosen = !GetEnv("DEEPINFER_PJRT_TEST_PLUGINS").empty();
      const bool required = !chosen && Number() < kFetchedTestPlugins && GetEnv("DEEPINFER_REQUIRE_ASSETS") == "1";
      if (required) FAIL() << missing;
      GTEST_SKIP() << missing << ": install one, or set DEEPINFER_PJRT_TEST_PLUGINS to paths of plugins";
    }
    file = plugins[static_cast<size_t>(Number())];
    if (Number() < kFetchedTestPlugins) return;
    const auto plugin = Plugin::Load(file);
    ASSERT_TRUE(plugin.has_value()) << plugin.error().ToString();
    if (const auto client = Client::Create(*plugin); !client) GTEST_SKIP() << client.error().ToString();
  }

  PluginFile file;
};

class PluginTest : public PluginParamTest<int> {
 protected:
  int Number() const override { return GetParam(); }
};

}  // namespace deepinfer::pjrt
