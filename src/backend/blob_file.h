// A file of named, page-aligned blobs that is mapped, not read: the packed weights of a backend.
//
// File, little endian: magic[8], u32 version, u32 zero, u64 index bytes, u64 file bytes, u64 XXH3 of the header before
// this field and of the index; the index: u64 length and bytes of the identity, u64 count, then per blob u64 length and
// bytes of its name, u64 offset, u64 size, u64 XXH3 of its bytes; then the blobs in that order, each at the next
// multiple of 4096, zeros between. Open checks everything but the blobs' bytes, so it touches only the first pages;
// Verify checks those. Damage is kDataLoss, a file of another identity kFailedPrecondition, no file kNotFound. Writing
// is atomic (cache_files.h). Move-only; thread-safe to read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"

namespace deepinfer::backend {

inline constexpr uint64_t kBlobAlignment = 4096;

struct NamedBlob {
  std::string name;
  std::span<const std::byte> bytes;
};

// Names must differ. `identity` says what the blobs were made from and for (model fingerprint, target).
Status WriteBlobFile(const std::string& path, const std::string& identity, const std::vector<NamedBlob>& blobs);

class BlobFile {
 public:
  // Marks the file as used.
  static Result<BlobFile> Open(const std::string& path, const std::string& identity);

  // kNotFound if there is none.
  Result<std::span<const std::byte>> Get(std::string_view name) const;
  std::vector<std::string> Names() const;  // sorted
  size_t size() const { return index_.size(); }
  // Reads every blob. kDataLoss names the first one whose checksum differs.
  Status Verify() const;

 private:
  struct Blob {
    uint64_t offset = 0;
    uint64_t size = 0;
    uint64_t checksum = 0;
  };
  std::span<const std::byte> BytesOf(const Blob& blob) const { return file_.bytes().subspan(blob.offset, blob.size); }
  Status ReadIndex(std::span<const std::byte> index, const std::string& identity);

  MappedFile file_;
  std::map<std::string, Blob, std::less<>> index_;
};

}  // namespace deepinfer::backend
