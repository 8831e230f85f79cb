// This program run again as a child, timed from its start to its first line on stdout. The child's stderr is ours. One
// call at a time.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace deepinfer::cli {

struct ChildRun {
  double first_line_ms = 0;
  std::string first_line;
};

// Waits for the child's end. An exit status other than 0, or an end without a line, is an error.
Result<ChildRun> RunSelf(const std::vector<std::string>& arguments);

// An empty folder of its own, removed with everything in it at the end.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> Create();
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace deepinfer::cli
