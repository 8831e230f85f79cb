// safetensors files, read by mmap, and folders of them; a writer for small sets of tensors.
//
// A file is a 64-bit header length, a JSON header {name: {dtype, shape, data_offsets}}, and the data. Open() checks all
// of it: the data regions cover the data section without overlap or hole, and each is as long as its shape and dtype
// say. Tensor data is not touched and has no alignment. Immutable after Open: thread-safe. Source: the safetensors
// format description (huggingface/safetensors, README).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/encoding.h"
#include "base/error.h"
#include "base/mapped_file.h"

namespace deepinfer::formats {

struct SafetensorsTensor {
  std::string name;
  std::string dtype_name;            // as in the file: "BF16"
  std::optional<DType> dtype;        // none if it is not one of ours (F64, F8_E5M2, ...)
  std::optional<Encoding> encoding;  // for F32, F16, BF16
  std::vector<int64_t> shape;        // outermost first; may be empty (a scalar) and may hold zeros
  std::span<const std::byte> data;
};

class SafetensorsFile {
 public:
  static Result<SafetensorsFile> Open(const std::string& path);
  // For tests and fuzzing: the bytes must outlive the object.
  static Result<SafetensorsFile> Parse(std::span<const std::byte> bytes, const std::string& name);

  const std::string& path() const { return path_; }
  const std::vector<SafetensorsTensor>& tensors() const { return tensors_; }  // in the order of their data
  const SafetensorsTensor* FindTensor(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  std::span<const std::byte> header_bytes() const { return header_; }

 private:
  MappedFile file_;
  std::string path_;
  std::span<const std::byte> header_;
  std::vector<SafetensorsTensor> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
  std::map<std::string, std::string> metadata_;
};

// The weights of a Hugging Face folder: model.safetensors, or model.safetensors.index.json with its shards.
class SafetensorsFolder {
 public:
  // Shard names must be plain file names; every tensor must lie in the shard that the index names, and in no other.
  static Result<SafetensorsFolder> Open(const std::string& folder);

  const std::vector<SafetensorsFile>& files() const { return files_; }

 private:
  std::vector<SafetensorsFile> files_;
};

struct SafetensorsOutput {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
};

// Writes under a temporary name beside `path` and renames, so that no half-written file is ever seen.
Status WriteSafetensors(const std::string& path, std::span<const SafetensorsOutput> tensors);

}  // namespace deepinfer::formats
