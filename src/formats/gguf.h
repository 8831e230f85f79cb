// GGUF v2 and v3 files, read by mmap. Source: the GGUF format specification (ggml project, docs/gguf.md).
//
// Open() reads and checks the whole header: every length is bounded by the file before anything is allocated, products
// are checked for overflow, tensor regions lie inside the file, are aligned and do not overlap. Tensor data is not
// touched. One part of a split file is a file like any other here; checkpoint.h joins the parts. Little-endian only (a
// big-endian file is refused by name). The object is immutable after Open: thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/encoding.h"
#include "base/error.h"
#include "base/mapped_file.h"

namespace deepinfer::formats {

// Integers of every width are widened (unsigned 64-bit keeps its own type); arrays hold one kind.
using GgufValue = std::variant<bool, int64_t, uint64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<bool>, std::vector<std::string_view>>;

// A key and its value as the bytes in the file, for copying: AddRawMetadata of a writer takes it.
struct GgufRawPair {
  std::string_view key;
  uint32_t type = 0;
  std::string_view bytes;
};

struct GgufTensor {
  std::string name;
  Encoding encoding = Encoding::kF32;
  const char* unsupported_type = nullptr;  // the type's name if it is none of ours; then `encoding` means nothing
  std::vector<int64_t> shape;              // outermost first: [rows, columns]; the file stores the reverse
  std::span<const std::byte> data;
};

class GgufFile {
 public:
  static Result<GgufFile> Open(const std::string& path);
  // For tests and fuzzing: the bytes must outlive the object. `name` stands for the path in errors.
  static Result<GgufFile> Parse(std::span<const std::byte> bytes, const std::string& name);

  const std::string& path() const { return path_; }
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  const std::vector<GgufRawPair>& raw_metadata() const { return raw_metadata_; }  // in the file's order
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* FindTensor(std::string_view name) const;
  // Everything before the tensor data.
  std::span<const std::byte> header_bytes() const { return header_; }

  // Typed access. Required* fail with the key's name if it is missing or of another type; Optional* fail only on
  // another type.
  bool Has(std::string_view key) const;
  Result<int64_t> RequiredInt(std::string_view key) const;
  Result<double> RequiredFloat(std::string_view key) const;  // an integer is accepted too
  Result<std::string> RequiredString(std::string_view key) const;
  Result<int64_t> OptionalInt(std::string_view key, int64_t fallback) const;
  Result<double> OptionalFloat(std::string_view key, double fallback) const;
  Result<bool> OptionalBool(std::string_view key, bool fallback) const;
  Result<std::string> OptionalString(std::string_view key, std::string fallback) const;
  // Pointers into the file's own storage, null if missing.
  Result<const std::vector<std::string_view>*> Strings(std::string_view key) const;
  Result<const std::vector<int64_t>*> Ints(std::string_view key) const;
  Result<const std::vector<double>*> Floats(std::string_view key) const;

 private:
  MappedFile file_;
  std::string path_;
  std::span<const std::byte> header_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<GgufRawPair> raw_metadata_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, size_t, std::less<>> tensor_index_;
};

}  // namespace deepinfer::formats
