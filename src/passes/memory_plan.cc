#include "passes/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace deepinfer::passes {
namespace {

bool LiveTogether(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

int64_t Aligned(int64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

}  // namespace

MemoryPlan PlanMemory(const std::vector<Lifetime>& values) {
  MemoryPlan plan;
  plan.offsets.assign(values.size(), 0);
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a].bytes > values[b].bytes; });
  std::vector<size_t> placed;  // ascending by offset
  for (const size_t index : order) {
    const int64_t bytes = Aligned(values[index].bytes);
    int64_t offset = 0;
    for (const size_t other : placed) {
      if (!LiveTogether(values[index], values[other])) continue;
      if (plan.offsets[other] >= offset + bytes) break;  // the gap before it is large enough
      offset = std::max(offset, plan.offsets[other] + Aligned(values[other].bytes));
    }
    plan.offsets[index] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
    const auto after = std::upper_bound(placed.begin(), placed.end(), offset,
                                        [&](int64_t value, size_t other) { return value < plan.offsets[other]; });
    placed.insert(after, index);
  }
  return plan;
}

Status CheckPlan(const std::vector<Lifetime>& values, const MemoryPlan& plan) {
  if (plan.offsets.size() != values.size()) {
    return MakeError(ErrorCode::kInternal, "memory plan", "{} offsets for {} values", plan.offsets.size(),
                     values.size());
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (plan.offsets[i] < 0 || plan.offsets[i] % kArenaAlignment != 0 ||
        plan.offsets[i] + values[i].bytes > plan.bytes) {
      return MakeError(ErrorCode::kInternal, "memory plan", "'{}' at {} (+{}) does not fit the arena of {} bytes",
                       values[i].name, plan.offsets[i], values[i].bytes, plan.bytes);
    }
    for (size_t j = i + 1; j < values.size(); ++j) {
      const bool overlap =
          plan.offsets[i] < plan.offsets[j] + values[j].bytes && plan.offsets[j] < plan.offsets[i] + values[i].bytes;
      if (overlap && LiveTogether(values[i], values[j])) {
        return MakeError(ErrorCode::kInternal, "memory plan", "'{}' and '{}' are alive together and overlap",
                         values[i].name, values[j].name);
      }
    }
  }
  return {};
}

}  // namespace deepinfer::passes
