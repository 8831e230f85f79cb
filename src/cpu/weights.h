// The weights of one model as kernels read them: packed panels for projections, plain rows for the rest.
//
// A packed weight is made once, on first use, by whichever graph is compiled first; later graphs get the same bytes.
// With a file (packed weights of an earlier start, mapped) nothing is packed at all. Thread-safe. Plain rows are the
// checkpoint's own mapped bytes: they are read for as long as the backend lives. Rows that are made on demand are made
// 32 at a time while they are packed, or once and for all if something else than a projection reads them.
//
// Where the team's memory is on several NUMA nodes, packed weights lie near the threads that read them. A mapped file's
// pages lie wherever they came into the page cache, and cannot be moved without moving them for everybody; so there
// they are copied into memory of our own, and the mapping is let go: as many bytes, but not shared between processes.
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
#include "base/page_memory.h"
#include "base/team_plan.h"

namespace deepinfer::cpu {

// How the members of a team share the columns of a packed weight.
enum class Share {
  kFixed,   // as SplitRange over all of them: each always reads the same
  kMoving,  // anew in each step
};

class Weights {
 public:
  // threads: that packing may use. placement: of the team that reads.
  explicit Weights(int threads, TeamPlacement placement = {}) : threads_(threads), placement_(std::move(placement)) {}

  void SetSource(backend::WeightMap source) { source_ = std::move(source); }
  // From now on packed weights are kept in `file`, and taken from it if its identity is this one; verify: and if the
  // checksums of all its bytes hold, which reads them all. Before any other thread uses the object.
  void OpenFile(std::string file, std::string identity, bool verify = false);
  Result<const backend::WeightData*> Source(const std::string& name) const;

  // The rows of several tensors of one encoding, stacked and packed. The pointer stays valid.
  Result<const void*> Packed(const std::vector<std::string>& names, Share share = Share::kFixed);

  // Makes the rows of a weight that has none of its own, for readers of plain rows.
  Status MakeRows(const std::string& name);
  // Where the plain rows are; null if they were not made.
  Result<const std::byte*> Rows(const std::string& name) const;

  // Writes everything to the file if anything was packed since the start.
  Status Persist();
  int64_t packed_bytes() const;
  // Why the file of an earlier start is not used; empty if it is, or if there is none.
  std::string file_problem() const;
  // Why the system did not place memory when it was asked to; empty if it did, or was not. Pages were touched from CPUs
  // near their nodes instead.
  std::string placement_problem() const;

 private:
  struct FreeAligned {
    void operator()(std::byte* data) const;
  };
  struct Entry {
    std::mutex mutex;  // of all below; held while packing
    PageMemory memory;
    std::span<const std::byte> bytes;  // of memory or of the file
    bool packed = false;               // in this start
  };

  // In the order of their keys. An entry is never removed.
  std::vector<std::pair<std::string, Entry*>> Entries() const;
  void SetProblem(std::string problem);
  Status Fill(const std::vector<std::string>& names, const std::string& key, Share share, Entry* entry);
  // Zeroed memory for a packed weight, near its readers.
  Result<PageMemory> Allocate(const std::string& key, size_t bytes, int64_t panel_bytes, Share share);
  void CopyFromFile(std::span<const std::byte> stored, std::byte* to) const;

  std::string file_;
  std::string identity_;
  int threads_;
  const TeamPlacement placement_;
  backend::WeightMap source_;
  std::optional<backend::BlobFile> blob_;
  // No two of these and an entry's are ever held together, but for problem_mutex_ inside an entry's.
  mutable std::mutex mutex_;  // of entries_ and made_
  std::map<std::string, std::unique_ptr<Entry>> entries_;
  std::map<std::string, std::unique_ptr<std::byte, FreeAligned>> made_;
  mutable std::mutex problem_mutex_;  // of both problems
  std::string file_problem_;
  std::string placement_problem_;
};

}  // namespace deepinfer::cpu
