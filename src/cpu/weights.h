// The weights of one model as kernels read them: packed panels for projections, plain rows for the rest.
//
// A packed weight is made once, on first use, by whichever graph is compiled first; later graphs get the same bytes.
// With a file (packed weights of an earlier start, mapped) nothing is packed at all. Thread-safe. Plain rows are the
// checkpoint's own mapped bytes: they are read for as long as the backend lives.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/blob_file.h"
#include "base/error.h"

namespace deepinfer::cpu {

class Weights {
 public:
  explicit Weights(int threads) : threads_(threads) {}  // that packing may use

  void SetSource(backend::WeightMap source) { source_ = std::move(source); }
  // From now on packed weights are kept in `file`, and taken from it if its identity is this one.
  void OpenFile(std::string file, std::string identity);
  Result<const backend::WeightData*> Source(const std::string& name) const;

  // The rows of several tensors of one encoding, stacked and packed. The pointer stays valid.
  Result<const void*> Packed(const std::vector<std::string>& names);

  // Writes everything to the file if anything was packed since the start.
  Status Persist();
  int64_t packed_bytes() const;
  // Why the file of an earlier start is not used; empty if it is, or if there is none.
  std::string file_problem() const;

 private:
  struct FreeAligned {
    void operator()(std::byte* data) const;
  };
  struct Entry {
    std::mutex mutex;  // held while packing
    std::unique_ptr<std::byte, FreeAligned> memory;
    std::span<const std::byte> bytes;
  };

  Status Pack(const std::vector<std::string>& names, const std::string& key, Entry* entry);

  std::string file_;
  std::string identity_;
  int threads_;
  backend::WeightMap source_;
  std::optional<backend::BlobFile> blob_;
  std::string file_problem_;
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Entry>> entries_;
};

}  // namespace deepinfer::cpu
