#include "base/page_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace deepinfer {
namespace {

constexpr auto kHugePage = static_cast<size_t>(kHugePageBytes);

size_t RoundUp(size_t value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

int64_t PageSize() {
  static const int64_t size = ::sysconf(_SC_PAGESIZE);
  return size;
}

Result<PageMemory> PageMemory::Allocate(const std::string& what, int64_t bytes) {
  const bool sound = bytes >= 0 && bytes <= std::numeric_limits<int64_t>::max() / 2;
  const bool huge = sound && static_cast<size_t>(bytes) >= kHugePage;
  const size_t unit = huge ? kHugePage : static_cast<size_t>(PageSize());
  const size_t size = sound ? RoundUp(std::max<size_t>(static_cast<size_t>(bytes), 1), unit) : 0;
  const size_t spare = huge ? kHugePage : 0;  // to start at a multiple
  void* mapped =
      sound ? ::mmap(nullptr, size + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
            : MAP_FAILED;
  if (mapped == MAP_FAILED) return MakeError(ErrorCode::kResourceExhausted, what, "cannot allocate {} bytes", bytes);
  PageMemory memory;
  memory.data_ = static_cast<std::byte*>(mapped);
  memory.mapped_ = size;
  if (!huge) return memory;
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(mapped) % kHugePage) % kHugePage;
  if (before > 0) ::munmap(memory.data_, before);
  memory.data_ += before;
  if (before < spare) ::munmap(memory.data_ + size, spare - before);
  ::madvise(memory.data_, size, MADV_HUGEPAGE);
  return memory;
}

PageMemory::PageMemory(PageMemory&& other) noexcept {
  *this = std::move(other);
}

PageMemory& PageMemory::operator=(PageMemory&& other) noexcept {
  if (this != &other) {
    if (data_ != nullptr) ::munmap(data_, mapped_);
    data_ = std::exchange(other.data_, nullptr);
    mapped_ = std::exchange(other.mapped_, 0);
  }
  return *this;
}

PageMemory::~PageMemory() {
  if (data_ != nullptr) ::munmap(data_, mapped_);
}

// In parts: the system keeps others from mapping memory while it works on one.
void PageMemory::Populate() const {
  constexpr size_t kPart = 16 * kHugePage;
  for (size_t at = 0; at < mapped_; at += kPart) {
    if (::madvise(data_ + at, std::min(kPart, mapped_ - at), MADV_POPULATE_WRITE) != 0) return;
  }
}

void ForgetPages(std::span<const std::byte> mapped) {
  const auto page = static_cast<uintptr_t>(PageSize());
  const auto begin = (reinterpret_cast<uintptr_t>(mapped.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(mapped.data() + mapped.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace deepinfer
