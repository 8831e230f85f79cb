#include "formats/gguf.h"

#include <algorithm>

#include "formats/byte_cursor.h"
#include "formats/gguf_metadata.h"
#include "formats/gguf_tensors.h"

namespace deepinfer::formats {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"

Result<uint32_t> ReadVersion(ByteCursor& cursor) {
  DI_ASSIGN_OR_RETURN(const uint32_t magic, cursor.Read<uint32_t>("magic"));
  if (magic != kMagic)
    return MakeError(ErrorCode::kInvalidArgument, cursor.file(), "not a GGUF file: the magic is missing");
  const std::string where = fmt::format("{}: version", cursor.file());
  DI_ASSIGN_OR_RETURN(const uint32_t version, cursor.Read<uint32_t>("version"));
  if (version != 0 && (version & 0xffffu) == 0) {
    return MakeError(ErrorCode::kUnsupported, where,
                     "this is a big-endian GGUF file; only little-endian ones are read");
  }
  if (version != 2 && version != 3) {
    return MakeError(ErrorCode::kUnsupported, where, "GGUF version {} is not supported; 2 and 3 are", version);
  }
  return version;
}

}  // namespace

Result<GgufFile> GgufFile::Parse(std::span<const std::byte> bytes, const std::string& name) {
  ByteCursor cursor(bytes, name);
  DI_RETURN_IF_ERROR(ReadVersion(cursor));
  DI_ASSIGN_OR_RETURN(const uint64_t tensor_count, cursor.Read<uint64_t>("tensor count"));
  DI_ASSIGN_OR_RETURN(const uint64_t metadata_count, cursor.Read<uint64_t>("metadata count"));
  GgufFile file;
  file.path_ = name;
  DI_ASSIGN_OR_RETURN(GgufMetadata metadata, ReadGgufMetadata(cursor, metadata_count));
  DI_ASSIGN_OR_RETURN(GgufTensorTable table, ReadGgufTensors(cursor, tensor_count, AlignmentOf(metadata), bytes));
  file.metadata_ = std::move(metadata.values);
  file.raw_metadata_ = std::move(metadata.raw);
  file.tensors_ = std::move(table.tensors);
  file.header_ = bytes.first(table.data_begin);
  for (size_t i = 0; i < file.tensors_.size(); ++i) file.tensor_index_.emplace(file.tensors_[i].name, i);
  return file;
}

Result<GgufFile> GgufFile::Open(const std::string& path) {
  DI_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path));
  DI_ASSIGN_OR_RETURN(GgufFile file, Parse(mapped.bytes(), path));
  file.file_ = std::move(mapped);
  return file;
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto it = tensor_index_.find(name);
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

}  // namespace deepinfer::formats
