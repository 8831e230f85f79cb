#include "text/special_guard.h"

#include <algorithm>
#include <array>
#include <set>

namespace deepinfer::text {
namespace {

constexpr std::string_view kGuard = "\xF4\x8F\xBF\xBD";

size_t CharacterLength(char first) {
  const auto byte = static_cast<unsigned char>(first);
  if (byte >= 0xF0) return 4;
  if (byte >= 0xE0) return 3;
  return byte >= 0xC0 ? 2 : 1;
}

}  // namespace

SpecialGuard::SpecialGuard(const std::vector<std::string>& special_tokens) : nodes_(1) {
  for (const std::string& token : special_tokens) {
    int32_t at = 0;
    for (char c : token) {
      const auto [it, added] = nodes_[at].next.try_emplace(c, static_cast<int32_t>(nodes_.size()));
      at = it->second;
      if (added) nodes_.emplace_back();
    }
    if (at != 0) nodes_[at].end = true;
  }
}

bool SpecialGuard::StartsHere(std::string_view rest) const {
  int32_t at = 0;
  for (char c : rest) {
    const auto it = nodes_[at].next.find(c);
    if (it == nodes_[at].next.end()) return false;
    at = it->second;
    if (nodes_[at].end) return true;
  }
  return true;  // the text ends inside a token
}

std::string SpecialGuard::Guard(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    const size_t length = std::min(CharacterLength(text[i]), rest.size());
    out.append(rest.substr(0, length));
    if (rest.starts_with(kGuard) || StartsHere(rest)) out.append(kGuard);
    i += length;
  }
  return out;
}

std::vector<std::string> TokensLookedForBy(std::string_view source, const std::vector<std::string>& special_tokens) {
  constexpr std::array<std::string_view, 7> kCalls = {"split(",   "rsplit(", "startswith(", "endswith(",
                                                      "replace(", "find(",   "partition("};
  const std::set<std::string_view> special(special_tokens.begin(), special_tokens.end());
  std::vector<std::string> found;
  for (size_t open = source.find_first_of("'\""); open != std::string_view::npos;
       open = source.find_first_of("'\"", open)) {
    const size_t close = source.find(source[open], open + 1);
    if (close == std::string_view::npos) break;
    const std::string_view literal = source.substr(open + 1, close - open - 1);
    if (!special.contains(literal)) {
      ++open;  // an apostrophe in plain text must not swallow the literal after it
      continue;
    }
    std::string_view before = source.substr(0, open);
    while (before.ends_with(' ')) before.remove_suffix(1);
    std::string_view after = source.substr(close + 1);
    while (after.starts_with(' ')) after.remove_prefix(1);
    const bool called = std::any_of(kCalls.begin(), kCalls.end(), [&](auto call) { return before.ends_with(call); });
    if (called || after.starts_with("in ") || after.starts_with("not in ")) found.emplace_back(literal);
    open = close + 1;
  }
  return found;
}

}  // namespace deepinfer::text
