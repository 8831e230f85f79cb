#include "formats/gguf_writer.h"

#include <utility>

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
  const Source source = [held = std::string(bytes)](const Sink& sink) { return sink(std::as_bytes(std::span(held))); };
  tensors_.push_back({std::string(name), type, std::move(shape), bytes.size(), source});
  return *this;
}

GgufWriter& GgufWriter::AddTensorFrom(std::string_view name, Encoding encoding, std::vector<int64_t> shape,
                                      Source source) {
  DI_CHECK(!shape.empty() && HasGgufType(encoding));
  uint64_t bytes = RowBytes(encoding, shape.back());
  for (size_t i = 0; i + 1 < shape.size(); ++i) bytes *= static_cast<uint64_t>(shape[i]);
  tensors_.push_back({std::string(name), *GgufTypeOf(encoding), std::move(shape), bytes, std::move(source)});
  return *this;
}

std::string GgufWriter::Header() const {
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
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    AppendString(out, tensor.name);
    Append<uint32_t>(out, static_cast<uint32_t>(tensor.shape.size()));
    for (size_t i = tensor.shape.size(); i-- > 0;) Append(out, tensor.shape[i]);
    Append(out, tensor.type);
    Append(out, offset);
    offset += (tensor.bytes + alignment_ - 1) / alignment_ * alignment_;
  }
  return out;
}

Status GgufWriter::Emit(const Sink& sink) const {
  uint64_t written = 0;
  const Sink counting = [&](std::span<const std::byte> bytes) {
    written += bytes.size();
    return sink(bytes);
  };
  const auto pad = [&] {
    const std::string zeros((alignment_ - written % alignment_) % alignment_, '\0');
    return counting(std::as_bytes(std::span(zeros)));
  };
  const std::string header = Header();
  DI_RETURN_IF_ERROR(counting(std::as_bytes(std::span(header))));
  for (const Tensor& tensor : tensors_) {
    DI_RETURN_IF_ERROR(pad());
    const uint64_t begin = written;
    DI_RETURN_IF_ERROR(tensor.source(counting));
    DI_CHECK(written - begin == tensor.bytes);
  }
  return pad();
}

std::string GgufWriter::Build() const {
  std::string out;
  const Status status = Emit([&](std::span<const std::byte> bytes) {
    out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return Status();
  });
  DI_CHECK(status.has_value());
  return out;
}

Status GgufWriter::WriteTo(FileWriter* file) const {
  return Emit([&](std::span<const std::byte> bytes) { return file->Write(bytes); });
}

Status GgufWriter::Write(const std::string& path) const {
  DI_ASSIGN_OR_RETURN(FileWriter file, FileWriter::Create(path));
  DI_RETURN_IF_ERROR(WriteTo(&file));
  return file.Commit();
}

bool HasGgufType(Encoding encoding) {
  return GgufTypeOf(encoding).has_value();
}

}  // namespace deepinfer::formats
