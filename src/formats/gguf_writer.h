// Builds a GGUF v3 file, as a byte string or on disk, for the tests and tools of any room.
//
//   GgufWriter writer;
//   writer.AddMetadata("general.architecture", "llama").AddMetadata("llama.block_count", 2u);
//   writer.AddTensor("token_embd.weight", Encoding::kQ8_0, {vocab, width}, values);
//   std::string bytes = writer.Build();
//
// Tensor data may come from a function that is called while the file is written, so that no more than a piece of it is
// ever in memory. Shapes are outermost first. It trusts its caller: bad arguments abort. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/encoding.h"
#include "base/error.h"
#include "formats/file_writer.h"

namespace deepinfer::formats {

// Whether the format has a type for an encoding.
bool HasGgufType(Encoding encoding);

class GgufWriter {
 public:
  explicit GgufWriter(uint32_t alignment = 32) : alignment_(alignment) {}

  // The C++ type chooses the file's: bool, 32- and 64-bit integers, float, double, strings, and vectors of them.
  GgufWriter& AddMetadata(std::string_view key, bool value);
  GgufWriter& AddMetadata(std::string_view key, int32_t value);
  GgufWriter& AddMetadata(std::string_view key, uint32_t value);
  GgufWriter& AddMetadata(std::string_view key, int64_t value);
  GgufWriter& AddMetadata(std::string_view key, uint64_t value);
  GgufWriter& AddMetadata(std::string_view key, float value);
  GgufWriter& AddMetadata(std::string_view key, double value);
  GgufWriter& AddMetadata(std::string_view key, std::string_view value);
  GgufWriter& AddMetadata(std::string_view key, const char* value) { return AddMetadata(key, std::string_view(value)); }
  GgufWriter& AddMetadata(std::string_view key, const std::vector<std::string>& values);
  GgufWriter& AddMetadata(std::string_view key, const std::vector<int32_t>& values);
  GgufWriter& AddMetadata(std::string_view key, const std::vector<float>& values);
  GgufWriter& AddMetadata(std::string_view key, const std::vector<bool>& values);
  // A value of any type number, with its bytes as they stand in the file.
  GgufWriter& AddRawMetadata(std::string_view key, uint32_t type, std::string_view bytes);

  // Encodes `values` row by row with EncodeRow.
  GgufWriter& AddTensor(std::string_view name, Encoding encoding, std::vector<int64_t> shape,
                        std::span<const float> values);
  // Bytes that are encoded already, under any type number.
  GgufWriter& AddRawTensor(std::string_view name, uint32_t type, std::vector<int64_t> shape, std::string_view bytes);

  // Takes the next piece of a tensor's bytes.
  using Sink = std::function<Status(std::span<const std::byte>)>;
  // Hands all bytes of a tensor to the sink, in order; an error ends the writing.
  using Source = std::function<Status(const Sink&)>;
  GgufWriter& AddTensorFrom(std::string_view name, Encoding encoding, std::vector<int64_t> shape, Source source);

  std::string Build() const;
  // The same bytes into a file, which is not closed yet.
  Status WriteTo(FileWriter* file) const;
  Status Write(const std::string& path) const;

 private:
  struct Tensor {
    std::string name;
    uint32_t type;
    std::vector<int64_t> shape;
    uint64_t bytes;
    Source source;
  };

  std::string Header() const;
  Status Emit(const Sink& sink) const;

  uint32_t alignment_;
  uint64_t pairs_ = 0;
  std::string metadata_;
  std::vector<Tensor> tensors_;
};

}  // namespace deepinfer::formats
