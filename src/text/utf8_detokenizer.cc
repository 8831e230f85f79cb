#include "text/utf8_detokenizer.h"

#include <cstdint>

namespace deepinfer::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// What a byte that starts a character asks for: continuation bytes, and the range of the first of them.
struct Lead {
  int continuations;  // 0: cannot start one
  uint8_t low;
  uint8_t high;
};

Lead LeadOf(uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1, 0x80, 0xBF};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};  // below: overlong
  if (byte == 0xED) return {2, 0x80, 0x9F};  // above: surrogates
  if (byte >= 0xE1 && byte <= 0xEF) return {2, 0x80, 0xBF};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3, 0x80, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};  // above: past U+10FFFF
  return {0, 0, 0};
}

// Appends the text of `bytes` to `out`; returns how many bytes were used. The rest is an unfinished character.
size_t Decode(std::string_view bytes, std::string& out) {
  size_t i = 0;
  while (i < bytes.size()) {
    const auto first = static_cast<uint8_t>(bytes[i]);
    if (first < 0x80) {
      out.push_back(bytes[i++]);
      continue;
    }
    const Lead lead = LeadOf(first);
    int good = 0;
    size_t at = i + 1;
    while (good < lead.continuations && at < bytes.size()) {
      const auto byte = static_cast<uint8_t>(bytes[at]);
      const uint8_t low = good == 0 ? lead.low : 0x80;
      const uint8_t high = good == 0 ? lead.high : 0xBF;
      if (byte < low || byte > high) break;
      ++good;
      ++at;
    }
    const bool whole = lead.continuations > 0 && good == lead.continuations;
    if (!whole && lead.continuations > 0 && at == bytes.size()) return i;
    out.append(whole ? bytes.substr(i, at - i) : kReplacement);
    i = at;
  }
  return i;
}

}  // namespace

std::string Utf8Detokenizer::Push(std::string_view bytes) {
  std::string out;
  held_.append(bytes);
  held_.erase(0, Decode(held_, out));
  return out;
}

std::string Utf8Detokenizer::Flush() {
  const bool unfinished = !held_.empty();
  held_.clear();
  return std::string(unfinished ? kReplacement : std::string_view());
}

std::string ReplaceInvalidUtf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  if (Decode(bytes, out) < bytes.size()) out.append(kReplacement);
  return out;
}

}  // namespace deepinfer::text
