#include "runner/buckets.h"

#include <algorithm>

namespace deepinfer::runner {
namespace {

std::vector<int64_t> Doubling(int64_t first, int64_t limit) {
  std::vector<int64_t> buckets;
  for (int64_t size = first; size < limit; size *= 2) buckets.push_back(size);
  buckets.push_back(limit);
  return buckets;
}

}  // namespace

std::vector<int64_t> DefaultPrefillBuckets(int64_t limit) {
  return Doubling(128, limit);
}
std::vector<int64_t> DefaultDecodeBuckets(int64_t limit) {
  return Doubling(1, limit);
}

Status ValidateBuckets(const std::string& name, const std::vector<int64_t>& buckets, const std::string& limit_name,
                       int64_t limit) {
  if (buckets.empty()) return MakeError(ErrorCode::kInvalidArgument, name, "cannot be empty");
  for (size_t i = 0; i < buckets.size(); ++i) {
    if (buckets[i] <= 0) {
      return MakeError(ErrorCode::kInvalidArgument, name, "entry {} must be positive, got {}", i, buckets[i]);
    }
  }
  for (size_t i = 1; i < buckets.size(); ++i) {
    if (buckets[i] <= buckets[i - 1]) {
      return MakeError(ErrorCode::kInvalidArgument, name, "must be in strictly ascending order, got [{}]",
                       fmt::join(buckets, ", "));
    }
  }
  if (buckets.back() != limit) {
    return MakeError(ErrorCode::kInvalidArgument, name, "the last bucket must equal {} ({}), got {}", limit_name, limit,
                     buckets.back());
  }
  return {};
}

int64_t SelectBucket(const std::vector<int64_t>& buckets, int64_t count) {
  const auto it = std::lower_bound(buckets.begin(), buckets.end(), count);
  return it == buckets.end() ? -1 : *it;
}

}  // namespace deepinfer::runner
