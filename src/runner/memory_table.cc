#include "runner/memory_table.h"

#include <algorithm>

namespace deepinfer::runner {
namespace {

int64_t Mib(int64_t bytes) {
  return (bytes + (int64_t{1} << 20) - 1) >> 20;
}

// What to do about it: a smaller cache, or nothing helps.
std::string Advice(const MemoryNeeds& needs, int64_t room) {
  const int64_t tokens = needs.per_token > 0 ? std::max<int64_t>(0, room) / needs.per_token : 0;
  if (tokens < 1) return "the weights alone leave no room for a context";
  return fmt::format("{} tokens of KV cache fit: --kv-cache-memory {}M{}", tokens, room >> 20,
                     tokens < needs.context ? fmt::format(" with --max-model-len {}", tokens) : "");
}

}  // namespace

std::string DescribeMemory(const MemoryNeeds& needs) {
  return fmt::format("weights {} MiB + KV cache and states {} MiB + step buffers {} MiB = {} MiB", Mib(needs.weights),
                     Mib(needs.states), Mib(needs.buffers), Mib(needs.weights + needs.states + needs.buffers));
}

Status CheckMemory(const MemoryNeeds& needs, const MemoryLimit& limit) {
  const int64_t total = needs.weights + needs.states + needs.buffers;
  if (limit.bytes == 0 || total <= limit.bytes) return {};
  return MakeError(ErrorCode::kResourceExhausted, "memory", "{}, but the {} is {} MiB; {}", DescribeMemory(needs),
                   limit.source, limit.bytes >> 20, Advice(needs, limit.bytes - needs.weights - needs.buffers));
}

}  // namespace deepinfer::runner
