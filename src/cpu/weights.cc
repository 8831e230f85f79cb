#include "cpu/weights.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/parallel.h"
#include "base/placement.h"
#include "cpu/kernels/linear/linear.h"

namespace deepinfer::cpu {
namespace {

// The same names may be packed from another encoding in another start (--dtype changes conversions).
std::string KeyOf(const std::vector<std::string>& names, Encoding encoding) {
  return fmt::format("{} {}", ToString(encoding), fmt::join(names, "|"));
}

constexpr int64_t kPanelsPerThread = 16;  // at least

using Sources = std::vector<const backend::WeightData*>;

// Of everything stacked.
struct Stack {
  Sources sources;
  Encoding encoding = Encoding::kF32;
  int64_t rows = 0;
  int64_t columns = 0;

  int64_t PanelBytes() const { return static_cast<int64_t>(PackedLinearBytes(encoding, kLinearGrain, columns)); }
};

// Packs one panel. buffer: for rows that must be made.
void PackPanel(const Stack& stack, int64_t panel, std::byte* packed, std::vector<std::byte>* buffer) {
  const auto stride = static_cast<int64_t>(RowBytes(stack.encoding, stack.columns));
  buffer->resize(static_cast<size_t>(kLinearGrain * stride));
  std::byte* made = buffer->data();
  std::vector<PackSegment> segments;
  int64_t first = 0;  // of the source's rows in the stack
  for (const backend::WeightData* source : stack.sources) {
    const int64_t begin = std::max(panel * kLinearGrain - first, int64_t{0});
    const int64_t end = std::min((panel + 1) * kLinearGrain - first, source->shape[0]);
    first += source->shape[0];
    if (begin >= end) continue;
    if (source->rows) {
      source->rows(begin, end, made);
      segments.push_back({made, end - begin, stride});
      made += (end - begin) * stride;
    } else {
      segments.push_back({source->data + begin * stride, end - begin, stride});
    }
  }
  PackPanels(stack.encoding, segments, stack.columns, packed + panel * stack.PanelBytes(), 0, 1);
}

// On `threads` of them at most.
void PackAll(const Stack& stack, int threads, std::byte* packed) {
  const int64_t panels = NumPanels(stack.rows);
  const int parts = static_cast<int>(std::clamp<int64_t>(panels / kPanelsPerThread, 1, std::max(threads, 1)));
  ParallelFor(parts, [&](int part) {
    std::vector<std::byte> buffer;
    for (int64_t panel = panels * part / parts; panel < panels * (part + 1) / parts; ++panel) {
      PackPanel(stack, panel, packed, &buffer);
    }
  });
}

}  // namespace

void Weights::FreeAligned::operator()(std::byte* data) const {
  std::free(data);
}

void Weights::OpenFile(std::string file, std::string identity, bool verify) {
  file_ = std::move(file);
  identity_ = std::move(identity);
  auto opened = backend::BlobFile::Open(file_, identity_);
  if (!opened) {
    if (opened.error().code != ErrorCode::kNotFound) SetProblem(opened.error().ToString());
    return;
  }
  if (verify) {
    if (const Status verified = opened->Verify(); !verified) {
      SetProblem(verified.error().ToString());
      return;
    }
  }
  blob_.emplace(std::move(*opened));
}

Result<const backend::WeightData*> Weights::Source(const std::string& name) const {
  const auto it = source_.find(name);
  if (it == source_.end()) return MakeError(ErrorCode::kNotFound, name, "the model has no weight of this name");
  return &it->second;
}

Result<const void*> Weights::Packed(const std::vector<std::string>& names, Share share) {
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
  if (entry->bytes.empty()) DI_RETURN_IF_ERROR(Fill(names, key, share, entry));
  return entry->bytes.data();
}

Status Weights::Fill(const std::vector<std::string>& names, const std::string& key, Share share, Entry* entry) {
  Stack stack;
  for (const std::string& name : names) {
    DI_ASSIGN_OR_RETURN(const backend::WeightData* source, Source(name));
    stack.encoding = source->encoding;
    stack.columns = source->shape[1];
    stack.rows += source->shape[0];
    stack.sources.push_back(source);
  }
  const size_t bytes = PackedLinearBytes(stack.encoding, stack.rows, stack.columns);
  std::optional<std::span<const std::byte>> stored;
  if (blob_) {
    if (auto found = blob_->Get(key)) stored = *found;
    if (stored && stored->size() != bytes) {
      SetProblem(fmt::format("{}: '{}' has {} bytes, not {}", file_, key, stored->size(), bytes));
      stored.reset();
    }
  }
  if (stored && placement_.nodes.empty()) {
    entry->bytes = *stored;
    return {};
  }
  DI_ASSIGN_OR_RETURN(entry->memory, Allocate(key, bytes, stack.PanelBytes(), share));
  if (stored) {
    CopyFromFile(*stored, entry->memory.data());
  } else {
    PackAll(stack, threads_, entry->memory.data());
    entry->packed = true;
  }
  entry->bytes = {entry->memory.data(), bytes};
  return {};
}

Result<PageMemory> Weights::Allocate(const std::string& key, size_t bytes, int64_t panel_bytes, Share share) {
  DI_ASSIGN_OR_RETURN(PageMemory memory, PageMemory::Allocate(key, static_cast<int64_t>(bytes)));
  const auto size = static_cast<int64_t>(bytes);
  const std::vector<PlacedRange> ranges =
      share == Share::kFixed ? PlaceByMember(placement_, size, panel_bytes) : PlaceSpread(placement_, size);
  if (const Status placed = PlacePages(memory.data(), ranges); !placed) {
    TouchNear(placement_, memory.data(), ranges);
    const std::lock_guard<std::mutex> lock(problem_mutex_);
    placement_problem_ = placed.error().ToString();
  }
  return memory;
}

void Weights::CopyFromFile(std::span<const std::byte> stored, std::byte* to) const {
  const size_t parts = static_cast<size_t>(std::max(threads_, 1));
  ParallelFor(static_cast<int>(parts), [&](int part) {
    const size_t begin = stored.size() * static_cast<size_t>(part) / parts;
    const size_t end = stored.size() * static_cast<size_t>(part + 1) / parts;
    std::memcpy(to + begin, stored.data() + begin, end - begin);
  });
  ForgetPages(stored);
}

Status Weights::MakeRows(const std::string& name) {
  DI_ASSIGN_OR_RETURN(const backend::WeightData* source, Source(name));
  if (!source->rows) return {};
  if (source->order != nullptr) {
    return MakeError(ErrorCode::kUnsupported, name, "only projections read rows whose inputs are in another order");
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& memory = made_[name];
  if (memory != nullptr) return {};
  const auto bytes = static_cast<size_t>(ir::Type::Weight(source->encoding, source->shape).Bytes());
  memory.reset(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)));
  if (memory == nullptr) return MakeError(ErrorCode::kResourceExhausted, name, "no memory for {} bytes of rows", bytes);
  const int64_t rows = source->shape[0];
  const auto stride = static_cast<int64_t>(RowBytes(source->encoding, source->shape[1]));
  const int64_t parts = std::max(threads_, 1);
  ParallelFor(static_cast<int>(parts), [&](int part) {
    for (int64_t row = rows * part / parts; row < rows * (part + 1) / parts; row += kLinearGrain) {
      const int64_t end = std::min(row + kLinearGrain, rows * (part + 1) / parts);
      source->rows(row, end, memory.get() + row * stride);
    }
  });
  return {};
}

Result<const std::byte*> Weights::Rows(const std::string& name) const {
  DI_ASSIGN_OR_RETURN(const backend::WeightData* source, Source(name));
  if (!source->rows) return source->data;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = made_.find(name);
  return it == made_.end() ? nullptr : it->second.get();
}

std::string Weights::file_problem() const {
  const std::lock_guard<std::mutex> lock(problem_mutex_);
  return file_problem_;
}

std::string Weights::placement_problem() const {
  const std::lock_guard<std::mutex> lock(problem_mutex_);
  return placement_problem_;
}

void Weights::SetProblem(std::string problem) {
  const std::lock_guard<std::mutex> lock(problem_mutex_);
  file_problem_ = std::move(problem);
}

std::vector<std::pair<std::string, Weights::Entry*>> Weights::Entries() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::pair<std::string, Entry*>> entries;
  for (const auto& [key, entry] : entries_) entries.emplace_back(key, entry.get());
  return entries;
}

Status Weights::Persist() {
  if (file_.empty()) return {};
  bool fresh = false;
  std::vector<backend::NamedBlob> blobs;
  for (const auto& [key, entry] : Entries()) {
    const std::lock_guard<std::mutex> lock(entry->mutex);
    if (entry->bytes.empty()) continue;
    fresh = fresh || entry->packed;
    blobs.push_back({key, entry->bytes});
  }
  if (!fresh) return {};
  return backend::WriteBlobFile(file_, identity_, blobs);
}

int64_t Weights::packed_bytes() const {
  int64_t bytes = 0;
  for (const auto& [key, entry] : Entries()) {
    const std::lock_guard<std::mutex> lock(entry->mutex);
    bytes += static_cast<int64_t>(entry->bytes.size());
  }
  return bytes;
}

}  // namespace deepinfer::cpu
