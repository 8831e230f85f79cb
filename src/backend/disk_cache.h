// Compiled graphs' plans on disk: one file per GraphKey, with the canonical text after passes and a manifest.
//
// File, little endian: magic[8], u32 version, u32 zero, u64 manifest bytes, u64 text bytes, u64 XXH3 of all that
// precedes and follows this field; then the manifest (JSON: key, text_hash, kernels) and the text. Named by the key's
// hash. Any damage is an error with its reason (kDataLoss), no entry is kNotFound; nothing from a file is trusted
// before the checksum and the key agree. Shared by processes (cache_files.h). Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/graph_key.h"
#include "base/error.h"

namespace deepinfer::backend {

struct DiskEntry {
  GraphKey key;
  std::string text;
  uint64_t text_hash = 0;            // XXH3 of text, as ir::CanonicalHash; Store computes it
  std::vector<std::string> kernels;  // Executable::Describe()
};

class DiskCache {
 public:
  // An empty folder name turns it off: every Load is kNotFound, every Store does nothing.
  explicit DiskCache(std::string dir) : dir_(std::move(dir)) {}

  bool enabled() const { return !dir_.empty(); }
  std::string PathOf(const GraphKey& key) const;

  // Marks the entry as used.
  Result<DiskEntry> Load(const GraphKey& key) const;
  Status Store(const DiskEntry& entry) const;

  // The files of all entries, sorted. Reads no file.
  std::vector<std::string> List() const;
  // Of those files, how the key with the fewest differing fields differs, or "no entry yet". Unreadable ones are passed
  // over.
  std::string ExplainMiss(const GraphKey& key, const std::vector<std::string>& files) const;

 private:
  std::string dir_;
};

}  // namespace deepinfer::backend
