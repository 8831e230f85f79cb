#include "text/stop_matcher.h"

#include <utility>

namespace deepinfer::text {

Result<StopMatcher> StopMatcher::Create(std::vector<std::string> stops) {
  for (const std::string& stop : stops) {
    if (stop.empty()) return MakeError(ErrorCode::kInvalidArgument, "stop", "a stop string must not be empty");
  }
  return StopMatcher(std::move(stops));
}

StopMatcher::Output StopMatcher::Push(std::string_view text) {
  if (stopped_) return {};
  if (stops_.empty()) return {std::string(text), false, -1};
  held_.append(text);
  return Scan(/*at_end=*/false);
}

StopMatcher::Output StopMatcher::Flush() {
  if (stopped_) return {};
  return Scan(/*at_end=*/true);
}

// Goes through the possible starts from the left; the first at which a stop stands, or could still come to stand,
// decides.
StopMatcher::Output StopMatcher::Scan(bool at_end) {
  const std::string_view held = held_;
  size_t start = 0;
  for (; start < held.size(); ++start) {
    const std::string_view rest = held.substr(start);
    bool may_become = false;
    for (size_t i = 0; i < stops_.size(); ++i) {
      if (rest.starts_with(stops_[i])) {
        Output output{std::string(held.substr(0, start)), true, static_cast<int>(i)};
        stopped_ = true;
        held_.clear();
        return output;
      }
      may_become |= std::string_view(stops_[i]).starts_with(rest);
    }
    if (may_become && !at_end) break;
  }
  Output output{std::string(held.substr(0, start)), false, -1};
  held_.erase(0, start);
  return output;
}

}  // namespace deepinfer::text
