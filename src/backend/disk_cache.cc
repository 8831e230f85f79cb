#include "backend/disk_cache.h"

#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

#include "backend/cache_files.h"
#include "base/mapped_file.h"
#include "formats/json.h"

namespace deepinfer::backend {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t zero;
  uint64_t manifest_bytes;
  uint64_t text_bytes;
  uint64_t checksum;
};
static_assert(sizeof(Header) == 40);
constexpr char kMagic[9] = "DIGRAPH\n";
constexpr uint32_t kVersion = 1;

struct Parts {
  std::string_view manifest;
  std::string_view text;
};

uint64_t HashText(std::string_view text) {
  return XXH3_64bits(text.data(), text.size());
}

uint64_t Checksum(const Header& header, std::string_view manifest, std::string_view text) {
  // Seeds chain the parts: each hash depends on all before it.
  uint64_t hash = XXH3_64bits(&header, offsetof(Header, checksum));
  hash = XXH3_64bits_withSeed(manifest.data(), manifest.size(), hash);
  return XXH3_64bits_withSeed(text.data(), text.size(), hash);
}

// The parts of a file whose lengths and checksum are right.
Result<Parts> Split(std::span<const std::byte> bytes, const std::string& path) {
  Header header{};
  if (bytes.size() < sizeof(header))
    return MakeError(ErrorCode::kDataLoss, path, "truncated to {} bytes", bytes.size());
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(header.magic)) != 0) {
    return MakeError(ErrorCode::kDataLoss, path, "not a graph entry");
  }
  if (header.version != kVersion || header.zero != 0) {
    return MakeError(ErrorCode::kDataLoss, path, "version {}, this program writes {}", header.version, kVersion);
  }
  const size_t body = bytes.size() - sizeof(header);
  if (header.manifest_bytes > body || header.text_bytes != body - header.manifest_bytes) {
    return MakeError(ErrorCode::kDataLoss, path, "holds {} bytes, not the {} + {} its header names", body,
                     header.manifest_bytes, header.text_bytes);
  }
  const char* start = reinterpret_cast<const char*>(bytes.data()) + sizeof(header);
  const Parts parts{{start, header.manifest_bytes}, {start + header.manifest_bytes, header.text_bytes}};
  if (Checksum(header, parts.manifest, parts.text) != header.checksum) {
    return MakeError(ErrorCode::kDataLoss, path, "the checksum differs");
  }
  return parts;
}

// Key, hash and kernels; the text is left empty.
Result<DiskEntry> ParseManifest(std::string_view manifest, const std::string& path) {
  DI_ASSIGN_OR_RETURN(const json root, formats::ParseJson(manifest, path));
  const auto bad = [&](const char* field) {
    return MakeError(ErrorCode::kDataLoss, path, "the manifest's field {} is missing or of another type", field);
  };
  if (!root.is_object() || !root.contains("key")) return bad("key");
  DiskEntry entry;
  DI_ASSIGN_OR_RETURN(entry.key, GraphKey::FromJson(root["key"]));
  if (!root.contains("text_hash") || !root["text_hash"].is_number_unsigned()) return bad("text_hash");
  entry.text_hash = root["text_hash"].get<uint64_t>();
  if (!root.contains("kernels") || !root["kernels"].is_array()) return bad("kernels");
  for (const json& kernel : root["kernels"]) {
    if (!kernel.is_string()) return bad("kernels");
    entry.kernels.push_back(kernel.get<std::string>());
  }
  return entry;
}

std::optional<GraphKey> ReadKey(const std::string& path) {
  const auto file = MappedFile::Open(path);
  if (!file) return std::nullopt;
  const auto parts = Split(file->bytes(), path);
  if (!parts) return std::nullopt;
  auto entry = ParseManifest(parts->manifest, path);
  if (!entry) return std::nullopt;
  return std::move(entry->key);
}

}  // namespace

std::string DiskCache::PathOf(const GraphKey& key) const {
  return fmt::format("{}/{:016x}{}", dir_, key.Hash(), kGraphSuffix);
}

Result<DiskEntry> DiskCache::Load(const GraphKey& key) const {
  if (!enabled()) return MakeError(ErrorCode::kNotFound, "graph cache", "is off");
  const std::string path = PathOf(key);
  DI_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  DI_ASSIGN_OR_RETURN(const Parts parts, Split(file.bytes(), path));
  DI_ASSIGN_OR_RETURN(DiskEntry entry, ParseManifest(parts.manifest, path));
  if (entry.key != key) {
    return MakeError(ErrorCode::kDataLoss, path, "is of another key: {}", DescribeDiff(Diff(key, entry.key)));
  }
  if (HashText(parts.text) != entry.text_hash) return MakeError(ErrorCode::kDataLoss, path, "the text's hash differs");
  entry.text = parts.text;
  TouchFile(path);
  return entry;
}

Status DiskCache::Store(const DiskEntry& entry) const {
  if (!enabled()) return {};
  const json root = {{"key", entry.key.ToJson()}, {"text_hash", HashText(entry.text)}, {"kernels", entry.kernels}};
  const std::string manifest =
      root.dump(1, ' ', false, json::error_handler_t::replace);  // the default throws on bad UTF-8
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(header.magic));
  header.version = kVersion;
  header.manifest_bytes = manifest.size();
  header.text_bytes = entry.text.size();
  header.checksum = Checksum(header, manifest, entry.text);
  DI_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(PathOf(entry.key)));
  DI_RETURN_IF_ERROR(file.Write(std::as_bytes(std::span(&header, 1))));
  DI_RETURN_IF_ERROR(file.Write(std::as_bytes(std::span(manifest))));
  DI_RETURN_IF_ERROR(file.Write(std::as_bytes(std::span(entry.text))));
  return file.Commit();
}

std::vector<std::string> DiskCache::List() const {
  std::vector<std::string> files;
  if (!enabled()) return files;
  std::error_code error;
  for (fs::directory_iterator it(dir_, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == kGraphSuffix) files.push_back(it->path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string DiskCache::ExplainMiss(const GraphKey& key, const std::vector<std::string>& files) const {
  std::optional<std::vector<FieldDiff>> nearest;
  for (const std::string& path : files) {
    const auto other = ReadKey(path);
    if (!other) continue;
    auto diff = Diff(key, *other);
    if (diff.empty()) continue;  // written by another process since the miss
    if (!nearest || diff.size() < nearest->size()) nearest = std::move(diff);
  }
  return nearest ? "differs from the nearest entry: " + DescribeDiff(*nearest) : "no entry yet";
}

}  // namespace deepinfer::backend
