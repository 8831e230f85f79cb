#include "formats/gguf_writer.h"

#include <cstdio>
#include <memory>

#include "formats/gguf_tensors.h"

namespace deepinfer::formats {
namespace {

template <class T>
void Append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

void AppendString(std::string& out, std::string_view text) {
  Append<uint64_t>(out, text.size());
  out.append(text);
}

// The format's numbers for value types.
constexpr uint32_t kU32 = 4;
constexpr uint32_t kI32 = 5;
constexpr uint32_t kF32 = 6;
constexpr uint32_t kBool = 7;
constexpr uint32_t kString = 8;
constexpr uint32_t kArray = 9;
constexpr uint32_t kU64 = 10;
constexpr uint32_t kI64 = 11;
constexpr uint32_t kF64 = 12;

template <class T>
std::string Bytes(T value) {
  std::string out;
  Append(out, value);
  return out;
}

std::string ArrayHead(uint32_t type, size_t count) {
  std::string out;
  Append(out, type);
  Append<uint64_t>(out, count);
  return out;
}

template <class T>
std::string ArrayBytes(uint32_t type, const std::vector<T>& values) {
  std::string out = ArrayHead(type, values.size());
  for (const T& value : values) Append(out, value);
  return out;
}

}  // namespace

GgufWriter& GgufWriter::AddRawMetadata(std::string_view key, uint32_t type, std::string_view bytes) {
  AppendString(metadata_, key);
  Append(metadata_, type);
  metadata_.append(bytes);
  ++pairs_;
  return *this;
}

GgufWriter& GgufWriter::AddMetadata(std::string_view key, bool value) {
  return AddRawMetadata(key, kBool, Bytes<uint8_t>(value ? 1 : 0));
}
GgufWriter& GgufWriter::AddMetadata(std::string_view key, int32_t value) {
  return AddRawMetadata(key, kI32, Bytes(value));
}
GgufWriter& GgufWriter::AddMetadata(std::string_view key, uint32_t value) {
  return AddRawMetadata(key, kU32, Bytes(value));
}
GgufWriter& GgufWriter::AddMetadata(std::string_view key, int64_t value) {
  return AddRawMetadata(key, kI64, Bytes(value));
}
GgufWriter& GgufWriter::AddMetadata(std::string_view key, uint64_t value) {
  return AddRawMetadata(key, kU64, Bytes(value));
}
GgufWriter& GgufWriter::AddMetadata(std::string_view key, float value) {
  return AddRawMetadata(key, kF32, Bytes(value));
}
GgufWriter& GgufWriter::AddMetadata(std::string_view key, double value) {
  return AddRawMetadata(key, kF64, Bytes(value));
}
GgufWriter& GgufWriter::AddMetadata(std::string_view key, std::string_view value) {
  std::string bytes;
  AppendString(bytes, value);
  return AddRawMetadata(key, kString, bytes);
}
GgufWriter& GgufWriter::AddMetadata(std::string_view key, const std::vector<std::string>& values) {
  std::string bytes = ArrayHead(kString, values.size());
  for (const std::string& value : values) AppendString(bytes, value);
  return AddRawMetadata(key, kArray, bytes);
}
GgufWriter& GgufWriter::AddMetadata(std::string_view key, const std::vector<int32_t>& values) {
  return AddRawMetadata(key, kArray, ArrayBytes(kI32, values));
}
GgufWriter& GgufWriter::AddMetadata(std::string_view key, const std::vector<float>& values) {
  return AddRawMetadata(key, kArray, ArrayBytes(kF32, values));
}
GgufWriter& GgufWriter::AddMetadata(std::string_view key, const std::vector<bool>& values) {
  std::string bytes = ArrayHead(kBool, values.size());
  for (bool value : values) bytes.push_back(value ? '\1' : '\0');
  return AddRawMetadata(key, kArray, bytes);
}

GgufWriter& GgufWriter::AddTensor(std::string_view name, Encoding encoding, std::vector<int64_t> shape,
                                  std::span<const float> values) {
  DI_CHECK(!shape.empty());
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  const int64_t columns = shape.back();
  DI_CHECK(static_cast<size_t>(rows * columns) == values.size());
  const size_t row_bytes = RowBytes(encoding, columns);
  std::string bytes(row_bytes * static_cast<size_t>(rows), '\0');
  for (int64_t row = 0; row < rows; ++row) {
    EncodeRow(encoding, values.data() + row * columns, bytes.data() + static_cast<size_t>(row) * row_bytes, columns);
  }
  const std::optional<uint32_t> type = GgufTypeOf(encoding);
  DI_CHECK(type.has_value());
  return AddRawTensor(name, *type, std::move(shape), bytes);
}

GgufWriter& GgufWriter::AddRawTensor(std::string_view name, uint32_t type, std::vector<int64_t> shape,
                                     std::string_view bytes) {
  tensors_.push_back({std::string(name), type, std::move(shape), std::string(bytes)});
  return *this;
}

std::string GgufWriter::Build() const {
  std::string out = "GGUF";
  const bool says_alignment = alignment_ != 32;
  Append<uint32_t>(out, 3);
  Append<uint64_t>(out, tensors_.size());
  Append<uint64_t>(out, pairs_ + (says_alignment ? 1 : 0));
  if (says_alignment) {
    AppendString(out, "general.alignment");
    Append(out, kU32);
    Append(out, alignment_);
  }
  out += metadata_;
  const auto align = [&](uint64_t size) { return (size + alignment_ - 1) / alignment_ * alignment_; };
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    AppendString(out, tensor.name);
    Append<uint32_t>(out, static_cast<uint32_t>(tensor.shape.size()));
    for (size_t i = tensor.shape.size(); i-- > 0;) Append(out, tensor.shape[i]);
    Append(out, tensor.type);
    Append(out, offset);
    offset = align(offset + tensor.bytes.size());
  }
  for (const Tensor& tensor : tensors_) {
    out.resize(align(out.size()), '\0');
    out += tensor.bytes;
  }
  out.resize(align(out.size()), '\0');
  return out;
}

Status GgufWriter::Write(const std::string& path) const {
  const std::string bytes = Build();
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), &std::fclose);
  if (file == nullptr) return MakeError(ErrorCode::kInvalidArgument, path, "cannot be written");
  if (std::fwrite(bytes.data(), 1, bytes.size(), file.get()) != bytes.size() || std::fflush(file.get()) != 0) {
    return MakeError(ErrorCode::kResourceExhausted, path, "writing failed");
  }
  return {};
}

}  // namespace deepinfer::formats
