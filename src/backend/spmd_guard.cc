#include "backend/spmd_guard.h"

#include <algorithm>
#include <string_view>

namespace deepinfer::backend {
namespace {

// The line that `at` lies in; a text that ends there has none.
std::string_view LineAt(std::string_view text, size_t at) {
  if (at >= text.size()) return "(the end)";
  const size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

}  // namespace

Status CheckSameProgram(const std::string& what, const std::vector<std::string>& text_by_rank) {
  for (size_t rank = 1; rank < text_by_rank.size(); ++rank) {
    const std::string& first = text_by_rank[0];
    const std::string& other = text_by_rank[rank];
    if (first == other) continue;
    const auto [end, other_end] = std::mismatch(first.begin(), first.end(), other.begin(), other.end());
    const auto at = static_cast<size_t>(end - first.begin());
    return MakeError(ErrorCode::kFailedPrecondition, what,
                     "rank {} would run another program than rank 0; line {} is '{}' on rank 0 and '{}' on rank {}",
                     rank, std::count(first.begin(), end, '\n') + 1, LineAt(first, at), LineAt(other, at), rank);
  }
  return {};
}

}  // namespace deepinfer::backend
