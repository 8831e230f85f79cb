#include "cpu/weights.h"

#include <sys/mman.h>

#include <cstdlib>
#include <thread>

#include "cpu/kernels/linear/linear.h"

namespace deepinfer::cpu {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

// The same names may be packed from another encoding in another start (--dtype changes conversions).
std::string KeyOf(const std::vector<std::string>& names, Encoding encoding) {
  return fmt::format("{} {}", ToString(encoding), fmt::join(names, "|"));
}

// Runs work(begin, end) over [0, panels) on up to `threads` threads.
template <class Work>
void InParallel(int64_t panels, int threads, const Work& work) {
  const int64_t parts = std::max<int64_t>(1, std::min<int64_t>(threads, panels / 16));
  std::vector<std::thread> helpers;
  for (int64_t part = 1; part < parts; ++part) {
    helpers.emplace_back([&, part] { work(panels * part / parts, panels * (part + 1) / parts); });
  }
  work(0, panels / parts);
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace

void Weights::FreeAligned::operator()(std::byte* data) const {
  std::free(data);
}

void Weights::OpenFile(std::string file, std::string identity) {
  file_ = std::move(file);
  identity_ = std::move(identity);
  auto opened = backend::BlobFile::Open(file_, identity_);
  if (opened) {
    blob_.emplace(std::move(*opened));
  } else if (opened.error().code != ErrorCode::kNotFound) {
    file_problem_ = opened.error().ToString();
  }
}

Result<const backend::WeightData*> Weights::Source(const std::string& name) const {
  const auto it = source_.find(name);
  if (it == source_.end()) return MakeError(ErrorCode::kNotFound, name, "the model has no weight of this name");
  return &it->second;
}

Result<const void*> Weights::Packed(const std::vector<std::string>& names) {
  DI_ASSIGN_OR_RETURN(const backend::WeightData* first, Source(names.front()));
  const std::string key = KeyOf(names, first->encoding);
  Entry* entry = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::unique_ptr<Entry>& slot = entries_[key];
    if (slot == nullptr) slot = std::make_unique<Entry>();
    entry = slot.get();
  }
  const std::lock_guard<std::mutex> lock(entry->mutex);
  if (entry->bytes.empty()) DI_RETURN_IF_ERROR(Pack(names, key, entry));
  return entry->bytes.data();
}

Status Weights::Pack(const std::vector<std::string>& names, const std::string& key, Entry* entry) {
  std::vector<PackSegment> segments;
  int64_t rows = 0;
  int64_t columns = 0;
  Encoding encoding = Encoding::kF32;
  for (const std::string& name : names) {
    DI_ASSIGN_OR_RETURN(const backend::WeightData* source, Source(name));
    encoding = source->encoding;
    columns = source->shape[1];
    rows += source->shape[0];
    segments.push_back({source->data, source->shape[0], static_cast<int64_t>(RowBytes(encoding, columns))});
  }
  const size_t bytes = PackedLinearBytes(encoding, rows, columns);
  if (blob_) {
    auto stored = blob_->Get(key);
    if (stored && stored->size() == bytes) {
      entry->bytes = *stored;
      return {};
    }
    if (stored) {
      const std::lock_guard<std::mutex> lock(mutex_);
      file_problem_ = fmt::format("{}: '{}' has {} bytes, not {}", file_, key, stored->size(), bytes);
    }
  }
  const size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  entry->memory.reset(static_cast<std::byte*>(std::aligned_alloc(bytes >= kHugePage ? kHugePage : 4096, rounded)));
  if (entry->memory == nullptr) {
    return MakeError(ErrorCode::kResourceExhausted, key, "no memory for {} packed bytes", bytes);
  }
  if (bytes >= kHugePage) ::madvise(entry->memory.get(), rounded, MADV_HUGEPAGE);
  InParallel(NumPanels(rows), threads_, [&](int64_t begin, int64_t end) {
    PackPanels(encoding, segments, columns, entry->memory.get(), begin, end);
  });
  entry->bytes = {entry->memory.get(), bytes};
  return {};
}

std::string Weights::file_problem() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return file_problem_;
}

Status Weights::Persist() {
  if (file_.empty()) return {};
  const std::lock_guard<std::mutex> lock(mutex_);
  bool fresh = false;
  std::vector<backend::NamedBlob> blobs;
  for (const auto& [key, entry] : entries_) {
    const std::lock_guard<std::mutex> entry_lock(entry->mutex);
    if (entry->bytes.empty()) continue;
    fresh = fresh || entry->memory != nullptr;
    blobs.push_back({key, entry->bytes});
  }
  if (!fresh) return {};
  return backend::WriteBlobFile(file_, identity_, blobs);
}

int64_t Weights::packed_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  int64_t bytes = 0;
  for (const auto& [key, entry] : entries_) bytes += static_cast<int64_t>(entry->bytes.size());
  return bytes;
}

}  // namespace deepinfer::cpu
