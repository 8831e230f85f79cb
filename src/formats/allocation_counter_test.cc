// Replaces operator new in this room's test program by one that counts. In a file of its own, so that the compiler does
// not inline one half of the pair and then warn about the other.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

#include "formats/test_files.h"

namespace {
std::atomic<size_t> allocated_bytes{0};
}  // namespace

void* operator new(size_t size) {
  allocated_bytes += size;
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// std::stable_sort gets its buffer this way; left to a sanitizer, it would be freed by the delete below.
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  allocated_bytes += size;
  return std::malloc(size == 0 ? 1 : size);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace deepinfer::formats {

size_t AllocatedBytes() {
  return allocated_bytes;
}

namespace {

TEST(AllocationCounterTest, Counts) {
  const size_t before = AllocatedBytes();
  const std::string text(1000, 'x');
  EXPECT_GE(AllocatedBytes() - before, text.size());
}

}  // namespace
}  // namespace deepinfer::formats
