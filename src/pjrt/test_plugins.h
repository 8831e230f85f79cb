// For tests: the plugins to test with. Paths, colon separated, from DEEPINFER_PJRT_TEST_PLUGINS, else from the build.
#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "base/env.h"
#include "pjrt/plugin_search.h"

namespace deepinfer::pjrt {

inline constexpr int kMaxTestPlugins = 2;

inline std::vector<std::string> TestPlugins() {
  std::string list = GetEnv("DEEPINFER_PJRT_TEST_PLUGINS");
#ifdef DI_PJRT_TEST_PLUGINS
  if (list.empty()) list = DI_PJRT_TEST_PLUGINS;
#endif
  std::vector<std::string> paths;
  std::istringstream stream(list);
  for (std::string path; std::getline(stream, path, ':');) {
    if (!path.empty()) paths.push_back(path);
  }
  return paths;
}

// One test per plugin: two plugins in one process would share what their symbols leak.
class PluginTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    const std::vector<std::string> paths = TestPlugins();
    if (GetParam() >= static_cast<int>(paths.size())) {
      GTEST_SKIP() << "no PJRT plugin number " << GetParam() << ": set DEEPINFER_PJRT_TEST_PLUGINS to paths of plugins";
    }
    const auto found = FindPlugin(paths[static_cast<size_t>(GetParam())]);
    ASSERT_TRUE(found.has_value()) << found.error().ToString();
    file = *found;
  }

  PluginFile file;
};

}  // namespace deepinfer::pjrt
