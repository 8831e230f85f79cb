// A read-only memory mapping of a whole file. Move-only; the bytes live as long as the object. Thread-safe to read.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/error.h"

namespace deepinfer {

class MappedFile {
 public:
  // Fails with the path and the system's reason. An empty file maps to an empty span.
  static Result<MappedFile> Open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace deepinfer
