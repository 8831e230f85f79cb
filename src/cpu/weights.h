// The weights of one model as kernels read them: packed panels for projections, plain rows for the rest.
//
// A packed weight is made once, on first use, by whichever graph is compiled first; later graphs get the same bytes.
// With a file (packed weights of an earlier start, mapped) nothing is packed at all. Thread-safe. Plain rows are the
// checkpoint's own mapped bytes: they are read for as long as the backend lives. Rows that are made on demand are made
// 32 at a time while they are packed, or once and for all if something else than a projection reads them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/blob_file.h"
#include "base/error.h"

namespace deepinfer::cpu {

class Weights {
 public:
  explicit Weights(int threads) : threads_(threads) {}  // that packing may use

  void SetSource(backend::WeightMap source) { source_ = std::move(source); }
  // From now on packed weights are kept in `file`, and taken from it if its identity is this one; verify: and if the
  // checksums of all its bytes hold, which reads them all. Before any other thread uses the object.
  void OpenFile(std::string file, std::string identity, bool verify = false);
  Result<const backend::WeightData*> Source(const std::string& name) const;

  // The rows of several tensors of one encoding, stacked and packed. The pointer stays valid.
  Result<const void*> Packed(const std::vector<std::string>& names);

  // Makes the rows of a weight that has none of its own, for readers of plain rows.
  Status MakeRows(const std::string& name);
  // Where the plain rows are; null if they were not made.
  Result<const std::byte*> Rows(const std::string& name) const;

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
    std::mutex mutex;  // of all below; held while packing
    std::unique_ptr<std::byte, FreeAligned> memory;
    std::span<const std::byte> bytes;
  };

  // In the order of their keys. An entry is never removed.
  std::vector<std::pair<std::string, Entry*>> Entries() const;
  void SetProblem(std::string problem);
  Status Pack(const std::vector<std::string>& names, const std::string& key, Entry* entry);

  std::string file_;
  std::string identity_;
  int threads_;
  backend::WeightMap source_;
  std::optional<backend::BlobFile> blob_;
  // No two of these and an entry's are ever held together, but for problem_mutex_ inside an entry's.
  mutable std::mutex mutex_;  // of entries_ and made_
  std::map<std::string, std::unique_ptr<Entry>> entries_;
  std::map<std::string, std::unique_ptr<std::byte, FreeAligned>> made_;
  mutable std::mutex problem_mutex_;  // of file_problem_
  std::string file_problem_;
};

}  // namespace deepinfer::cpu
