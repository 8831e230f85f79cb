#include "backend/blob_file.h"

#include <xxhash.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <set>
#include <utility>

#include "backend/cache_files.h"

namespace deepinfer::backend {
namespace {

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t zero;
  uint64_t index_bytes;
  uint64_t file_bytes;
  uint64_t checksum;
};
static_assert(sizeof(Header) == 40);
constexpr char kMagic[9] = "DIBLOBS\n";
constexpr uint32_t kVersion = 1;

// Only for sizes far below 2^64: those of memory and files that exist.
constexpr uint64_t AlignUp(uint64_t offset) {
  return (offset + kBlobAlignment - 1) / kBlobAlignment * kBlobAlignment;
}

uint64_t Checksum(const Header& header, std::span<const std::byte> index) {
  const uint64_t hash = XXH3_64bits(&header, offsetof(Header, checksum));
  return XXH3_64bits_withSeed(index.data(), index.size(), hash);
}

void AppendU64(std::string& out, uint64_t value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendText(std::string& out, const std::string& text) {
  AppendU64(out, text.size());
  out += text;
}

// Bounds-checked reads of the index; false once it has run out.
struct IndexReader {
  std::span<const std::byte> rest;

  bool U64(uint64_t& value) {
    if (rest.size() < sizeof(value)) return false;
    std::memcpy(&value, rest.data(), sizeof(value));
    rest = rest.subspan(sizeof(value));
    return true;
  }
  bool Text(std::string& text) {
    uint64_t size = 0;
    if (!U64(size) || size > rest.size()) return false;
    text.assign(reinterpret_cast<const char*>(rest.data()), size);
    rest = rest.subspan(size);
    return true;
  }
};

}  // namespace

Status WriteBlobFile(const std::string& path, const std::string& identity, const std::vector<NamedBlob>& blobs) {
  std::set<std::string> names;
  size_t index_bytes = 2 * sizeof(uint64_t) + identity.size();
  for (const NamedBlob& blob : blobs) {
    if (!names.insert(blob.name).second) {
      return MakeError(ErrorCode::kInvalidArgument, path, "two blobs are named {}", blob.name);
    }
    index_bytes += 4 * sizeof(uint64_t) + blob.name.size();
  }
  std::string index;
  index.reserve(index_bytes);
  AppendText(index, identity);
  AppendU64(index, blobs.size());
  uint64_t end = sizeof(Header) + index_bytes;
  for (const NamedBlob& blob : blobs) {
    const uint64_t offset = AlignUp(end);
    AppendText(index, blob.name);
    AppendU64(index, offset);
    AppendU64(index, blob.bytes.size());
    AppendU64(index, XXH3_64bits(blob.bytes.data(), blob.bytes.size()));
    end = offset + blob.bytes.size();
  }
  const auto index_span = std::as_bytes(std::span(index));
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(header.magic));
  header.version = kVersion;
  header.index_bytes = index.size();
  header.file_bytes = end;
  header.checksum = Checksum(header, index_span);

  DI_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  DI_RETURN_IF_ERROR(file.Write(std::as_bytes(std::span(&header, 1))));
  DI_RETURN_IF_ERROR(file.Write(index_span));
  uint64_t at = sizeof(Header) + index.size();
  for (const NamedBlob& blob : blobs) {
    DI_RETURN_IF_ERROR(file.WriteZeros(AlignUp(at) - at));
    DI_RETURN_IF_ERROR(file.Write(blob.bytes));
    at = AlignUp(at) + blob.bytes.size();
  }
  return file.Commit();
}

Result<BlobFile> BlobFile::Open(const std::string& path, const std::string& identity) {
  BlobFile out;
  DI_ASSIGN_OR_RETURN(out.file_, MappedFile::Open(path));
  const auto bytes = out.file_.bytes();
  Header header{};
  if (bytes.size() < sizeof(header))
    return MakeError(ErrorCode::kDataLoss, path, "truncated to {} bytes", bytes.size());
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(header.magic)) != 0) {
    return MakeError(ErrorCode::kDataLoss, path, "not a blob file");
  }
  if (header.version != kVersion || header.zero != 0) {
    return MakeError(ErrorCode::kDataLoss, path, "version {}, this program writes {}", header.version, kVersion);
  }
  if (header.file_bytes != bytes.size() || header.index_bytes > bytes.size() - sizeof(header)) {
    return MakeError(ErrorCode::kDataLoss, path, "has {} bytes, not the {} its header names", bytes.size(),
                     header.file_bytes);
  }
  const auto index = bytes.subspan(sizeof(header), header.index_bytes);
  if (Checksum(header, index) != header.checksum) return MakeError(ErrorCode::kDataLoss, path, "the checksum differs");
  DI_RETURN_IF_ERROR(out.ReadIndex(index, identity));
  TouchFile(path);
  return out;
}

Status BlobFile::ReadIndex(std::span<const std::byte> index, const std::string& identity) {
  const auto damaged = [&](const std::string& reason) {
    return MakeError(ErrorCode::kDataLoss, file_.path(), "the index is damaged: {}", reason);
  };
  const uint64_t file_bytes = file_.bytes().size();
  IndexReader reader{index};
  std::string found;
  uint64_t count = 0;
  if (!reader.Text(found) || !reader.U64(count)) return damaged("it ends early");
  if (found != identity) {
    return MakeError(ErrorCode::kFailedPrecondition, file_.path(), "made for \"{}\", not for \"{}\"", found, identity);
  }
  uint64_t end = sizeof(Header) + index.size();
  for (uint64_t i = 0; i < count; ++i) {
    std::string name;
    Blob blob;
    if (!reader.Text(name) || !reader.U64(blob.offset) || !reader.U64(blob.size) || !reader.U64(blob.checksum)) {
      return damaged("it ends early");
    }
    if (blob.offset != AlignUp(end)) return damaged(fmt::format("blob {} is out of place", name));
    if (blob.offset > file_bytes || blob.size > file_bytes - blob.offset) {
      return damaged(fmt::format("blob {} ends past the file", name));
    }
    end = blob.offset + blob.size;
    if (!index_.emplace(std::move(name), blob).second) return damaged("a name occurs twice");
  }
  if (!reader.rest.empty() || end != file_bytes) return damaged("it does not cover the file");
  return {};
}

Result<std::span<const std::byte>> BlobFile::Get(std::string_view name) const {
  const auto found = index_.find(name);
  if (found == index_.end()) return MakeError(ErrorCode::kNotFound, file_.path(), "has no blob {}", name);
  return BytesOf(found->second);
}

std::vector<std::string> BlobFile::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, blob] : index_) names.push_back(name);
  return names;
}

Status BlobFile::Verify() const {
  for (const auto& [name, blob] : index_) {
    const auto bytes = BytesOf(blob);
    if (XXH3_64bits(bytes.data(), bytes.size()) != blob.checksum) {
      return MakeError(ErrorCode::kDataLoss, file_.path(), "the checksum of blob {} differs", name);
    }
  }
  return {};
}

}  // namespace deepinfer::backend
