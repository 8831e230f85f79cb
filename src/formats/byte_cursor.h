// Reads little-endian values from a span of bytes, each read bounded by what is left; nothing is allocated.
//
// Every read names the field, so that an error says which one the file breaks off in. Also here: Printable(), which
// makes bytes from a file safe to show, and checked multiplication. Not thread-safe; one reader, one cursor.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace deepinfer::formats {

static_assert(std::endian::native == std::endian::little, "files are read in place and are little-endian");

// `text` cut to `max_bytes`, with everything but printable ASCII escaped.
std::string Printable(std::string_view text, size_t max_bytes = 80);

// a * b for non-negative factors, or nullopt if it exceeds int64.
std::optional<int64_t> CheckedMultiply(int64_t a, int64_t b);

class ByteCursor {
 public:
  ByteCursor(std::span<const std::byte> bytes, std::string file) : bytes_(bytes), file_(std::move(file)) {}

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }
  const std::string& file() const { return file_; }
  // What was read since the position was `begin`.
  std::string_view Since(size_t begin) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + begin, position_ - begin};
  }

  template <class T>
  Result<T> Read(std::string_view field) {
    if (remaining() < sizeof(T)) return Truncated(field, sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }

  // A 64-bit length and that many bytes; the view points into the file.
  Result<std::string_view> ReadString(std::string_view field, uint64_t max_bytes);

  // The next `size` bytes.
  Result<std::span<const std::byte>> ReadBytes(std::string_view field, uint64_t size);

 private:
  tl::unexpected<Error> Truncated(std::string_view field, uint64_t wanted) const;

  std::span<const std::byte> bytes_;
  size_t position_ = 0;
  std::string file_;
};

}  // namespace deepinfer::formats
