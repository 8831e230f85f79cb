#include "text/token_table.h"

#include <array>

namespace deepinfer::text {
namespace {

// GPT-2's table gives every byte a printable character: most stand for themselves (Latin-1), the rest follow from
// U+0100.
constexpr int kByteCharacters = 256 + 68;

constexpr bool StandsForItself(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
}

constexpr std::array<int16_t, kByteCharacters> MakeByteOfCharacter() {
  std::array<int16_t, kByteCharacters> table{};
  for (auto& entry : table) entry = -1;
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) table[StandsForItself(byte) ? byte : next++] = static_cast<int16_t>(byte);
  return table;
}
constexpr auto kByteOfCharacter = MakeByteOfCharacter();

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

std::string ByteLevelBytes(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<uint8_t>(text[i]);
    int code = first;
    size_t length = 1;
    if (first >= 0xC0 && i + 1 < text.size()) {
      // Only U+0080 to U+07FF matters here; longer characters are copied.
      length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
      code = length == 2 ? ((first & 0x1F) << 6) | (static_cast<uint8_t>(text[i + 1]) & 0x3F) : kByteCharacters;
    }
    const int byte = code < kByteCharacters ? kByteOfCharacter[code] : -1;
    if (byte >= 0) {
      out.push_back(static_cast<char>(byte));
    } else {
      out.append(text.substr(i, length));
    }
    i += length;
  }
  return out;
}

std::string WithSpaces(std::string_view text, std::string_view replacement) {
  std::string out;
  while (!text.empty()) {
    const size_t at = replacement.empty() ? std::string_view::npos : text.find(replacement);
    out.append(text.substr(0, at));
    if (at == std::string_view::npos) break;
    out.push_back(' ');
    text.remove_prefix(at + replacement.size());
  }
  return out;
}

}  // namespace

bool IsByteToken(std::string_view text) {
  return text.size() == 6 && text.starts_with("<0x") && text[5] == '>' && HexDigit(text[3]) >= 0 &&
         HexDigit(text[4]) >= 0;
}

std::string_view TokenTable::Text(int32_t id) const {
  if (id < 0 || id >= size()) return {};
  return std::string_view(texts).substr(offsets[id], offsets[id + 1] - offsets[id]);
}

std::string TokenTable::Bytes(int32_t id) const {
  const std::string_view text = Text(id);
  if (Has(id, kByte)) return std::string(1, static_cast<char>(HexDigit(text[3]) * 16 + HexDigit(text[4])));
  if (Has(id, kSpecial)) return std::string(text);
  switch (form) {
    case Form::kByteLevel:
      return Has(id, kAdded) ? std::string(text) : ByteLevelBytes(text);
    case Form::kMetaspace:
      return WithSpaces(text, replacement);
    case Form::kPlain:
      break;
  }
  return std::string(text);
}

int32_t TokenTable::Find(std::string_view text) const {
  if (const auto it = added.find(std::string(text)); it != added.end()) return it->second;
  for (int32_t id = 0; id < size(); ++id) {
    if (offsets[id + 1] - offsets[id] == text.size() && Text(id) == text) return id;
  }
  return -1;
}

void TokenTable::IndexAdded() {
  for (int32_t id = 0; id < size(); ++id) {
    if (flags[id] & kAdded) added.emplace(std::string(Text(id)), id);
  }
}

}  // namespace deepinfer::text
