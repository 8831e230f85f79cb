// For tests of what is read from /proc and /sys: a folder that stands for "/", removed at the end.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace deepinfer {

class FakeRoot : public ::testing::Test {
 protected:
  FakeRoot() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = std::filesystem::path(::testing::TempDir()) / (std::string("di_fake_root_") + info->name());
    std::filesystem::remove_all(root_);
  }
  ~FakeRoot() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root_.string() + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  std::string root() const { return root_.string(); }

 private:
  std::filesystem::path root_;
};

}  // namespace deepinfer
