#include "pjrt/plugin.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "pjrt/test_plugins.h"

namespace deepinfer::pjrt {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "pjrt_plugins_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  std::string Touch(const std::string& file) const {
    fs::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << "x";
    return (path_ / file).string();
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

std::string ErrorOf(const Result<PluginFile>& result) {
  return result ? "" : result.error().ToString();
}

TEST(PluginSearchTest, PackagesAreFoundByName) {
  const Folder folder;
  const std::string first = folder.Touch("xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so");
  folder.Touch("xla_plugins/xla_cpu_pjrt/helper.so");
  const std::string second = folder.Touch("jax_plugins/xla_cuda13/xla_cuda_plugin.so");
  const std::string third = folder.Touch("libtpu/libtpu.so");
  folder.Touch("numpy/core.so");
  const std::vector<std::string> folders = {folder.path(), "/no/such/folder"};
  EXPECT_EQ(ListPlugins(folders).size(), 3u);
  EXPECT_EQ(FindPlugin("xla_cpu_pjrt", folders)->path, first);
  EXPECT_EQ(FindPlugin("xla_cuda13", folders)->path, second);
  EXPECT_EQ(FindPlugin("libtpu", folders)->path, third);
  EXPECT_EQ(FindPlugin(first, {})->name, "xla_cpu_pjrt");
  EXPECT_NE(ErrorOf(FindPlugin("numpy", folders)).find("found: xla_cuda13, libtpu, xla_cpu_pjrt"), std::string::npos)
      << ErrorOf(FindPlugin("numpy", folders));
  EXPECT_NE(ErrorOf(FindPlugin("", folders)).find("choose one"), std::string::npos);
}

TEST(PluginSearchTest, TheOnlyOneNeedsNoName) {
  const Folder folder;
  const std::string path = folder.Touch("package/some_pjrt.so");
  EXPECT_EQ(FindPlugin("", {folder.path()})->path, path);
  EXPECT_NE(ErrorOf(FindPlugin("", {})).find("none is installed"), std::string::npos);
  EXPECT_NE(ErrorOf(FindPlugin("/no/such/plugin.so", {})).find("no such file"), std::string::npos);
}

TEST(PluginTableTest, WhatIsNotAPluginIsRefused) {
  const Folder folder;
  const auto refused = Plugin::Load({"x", folder.Touch("x_pjrt.so")});
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().ToString().find("cannot be loaded"), std::string::npos);
}

std::string TableError(const PJRT_Api& api) {
  const auto plugin = Plugin::FromTable("fake", &api);
  return plugin ? "" : plugin.error().ToString();
}

TEST_P(PluginTest, TheTableIsChecked) {
  const auto plugin = Plugin::Load(file);
  ASSERT_TRUE(plugin.has_value()) << plugin.error().ToString();
  PJRT_Api api{};
  std::memcpy(&api, &(*plugin)->api(), std::min(sizeof(api), (*plugin)->api().struct_size));
  EXPECT_EQ(TableError(api), "");
  PJRT_Api other = api;
  other.pjrt_api_version.major_version = 7;
  EXPECT_NE(TableError(other).find("'fake' (API 7."), std::string::npos) << TableError(other);
  EXPECT_NE(TableError(other).find("major versions differ"), std::string::npos) << TableError(other);
  other = api;
  other.PJRT_Executable_Serialize = nullptr;
  EXPECT_NE(TableError(other).find("has no PJRT_Executable_Serialize"), std::string::npos) << TableError(other);
  other = api;
  other.struct_size = offsetof(PJRT_Api, PJRT_Buffer_ToHostBuffer);
  EXPECT_NE(TableError(other).find("has no PJRT_Buffer_ToHostBuffer"), std::string::npos) << TableError(other);
  other.struct_size = 8;
  EXPECT_NE(TableError(other).find("8 bytes"), std::string::npos) << TableError(other);
}

INSTANTIATE_TEST_SUITE_P(Plugins, PluginTest, testing::Range(0, kMaxTestPlugins));

}  // namespace
}  // namespace deepinfer::pjrt
