// A file that appears whole or not at all: written under a temporary name beside its place, then renamed.
//
// Errors name the path and the system's reason. Not thread-safe. An object that was not committed takes its temporary
// file away with it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/error.h"

namespace deepinfer::formats {

class FileWriter {
 public:
  static Result<FileWriter> Create(const std::string& path);
  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&&) = delete;
  ~FileWriter();

  Status Write(std::span<const std::byte> bytes);
  // Closes the temporary file: from here on it can be read, and nothing more be written.
  Status Close();
  // Closes it, if that was not done, and moves it to its place.
  Status Commit();

  const std::string& temporary_path() const { return temporary_; }

 private:
  FileWriter(std::string path, std::string temporary, int fd);

  std::string path_;
  std::string temporary_;  // empty once it is gone
  int fd_;
};

}  // namespace deepinfer::formats
