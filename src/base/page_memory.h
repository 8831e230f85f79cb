// Zeroed memory straight from the system, on huge pages where it gives them (fewer TLB misses when it is walked): from
// 2 MiB on it starts at a multiple of that. A page costs memory once it is written to. Unlike the heap's, its pages can
// be placed (placement.h) and are nobody else's afterwards. Move-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"

namespace deepinfer {

inline constexpr int64_t kHugePageBytes = int64_t{2} << 20;

class PageMemory {
 public:
  // kResourceExhausted, naming `what`, where there is no memory or bytes is negative.
  static Result<PageMemory> Allocate(const std::string& what, int64_t bytes);

  PageMemory() = default;
  PageMemory(PageMemory&& other) noexcept;
  PageMemory& operator=(PageMemory&& other) noexcept;
  PageMemory(const PageMemory&) = delete;
  PageMemory& operator=(const PageMemory&) = delete;
  ~PageMemory();

  // Gets every page now, as zeros where nothing was written, so that nobody who writes later waits for one. Others may
  // read and write meanwhile. Does nothing where the system cannot (Linux before 5.14).
  void Populate() const;

  std::byte* data() const { return data_; }  // null if nothing was allocated

 private:
  std::byte* data_ = nullptr;
  size_t mapped_ = 0;
};

int64_t PageSize();

// Whole pages of a file mapping leave this process's memory; a later read maps them anew.
void ForgetPages(std::span<const std::byte> mapped);

}  // namespace deepinfer
